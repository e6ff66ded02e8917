/*
 * A recording of all goroutines, as `gospect record` makes it, whose samples become numbers: where
 * goroutines are, for how long they wait there, which ones are created and end, and which one
 * never waits.
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "lib/goroutine_filter.h"
#include "lib/why.h"

/* As of a recording: see record.c. */
#define STACK_LIMIT (256u << 10)
#define MAX_STACK_WORDS (3u << 18)
#define HZ 100
#define BUDGET 0.01
/* Goroutines whose running time is added up, and creators that are counted. */
#define MOST_RUNNERS (1u << 20)
#define MOST_CREATORS (1u << 16)
/* Only creators with so many goroutines, at any time, are named. */
#define LEAST_OF_CREATOR 10
/* Slices of the planned time. What ends early has fewer, and its WHY_PARTS are made of those. */
#define SLICES 32
/* Places of a goroutine's running time. */
#define SHARES 64

/* The waits in one bucket. */
struct stay_sum {
	double seconds;
	double squares;
};

/* A goroutine's time in which it ran or could run. */
struct runner {
	uint64_t goroutine;
	double running;
	double ready;
	uint32_t bucket; /* in which it ran last */
};

/* The goroutines of one go statement. */
struct flow {
	uint32_t first, first_ended;
	uint32_t created[SLICES], ended[SLICES];
	/* At the end. */
	uint32_t on_network, at_place;
	uint32_t place; /* a stack */
	uint8_t wait;
	enum goroutine_status status;
	uint64_t oldest; /* CLOCK_MONOTONIC; 0: not known */
};

struct recording {
	const struct why_recording *how;
	struct why_numbers *n;
	struct wall_sampler *sampler;
	struct running_stacks running;
	struct stay_sum *stays; /* by bucket */
	size_t stay_capacity;
	struct map runner_index; /* goroutine -> index + 1 */
	struct runner *runners;
	size_t runner_count;
	size_t runner_capacity;
	struct flow *flows; /* by the sampler's number of the creator */
	size_t flow_count;
	size_t flow_capacity;
	uint64_t first_at;  /* when the first look was; 0: not yet */
	uint64_t first_ids; /* goroutines up to this id were there at the first look */
	uint64_t moves;
	bool failed; /* there is no memory */
};

static void recording_release(struct recording *r)
{
	running_stacks_close(&r->running);
	wall_sampler_close(r->sampler);
	map_release(&r->runner_index);
	free(r->stays);
	free(r->runners);
	free(r->flows);
}
#define _cleanup_recording_ _cleanup_(recording_release)

/* ---- while it is recorded ---- */

static void tick(void *arg, double seconds, uint64_t samples)
{
	struct recording *r = arg;

	r->how->tick(r->how->arg, seconds);
}

static struct runner *runner_of(struct recording *r, uint64_t goroutine)
{
	uint64_t *at = r->runner_count < MOST_RUNNERS ? map_at(&r->runner_index, goroutine) : NULL;

	if (!at)
		return NULL;
	if (!*at) {
		if (!array_reserve(&r->runners, &r->runner_capacity, r->runner_count + 1))
			return NULL;
		r->runners[r->runner_count++] = (struct runner){.goroutine = goroutine};
		*at = r->runner_count;
	}
	return &r->runners[*at - 1];
}

static void stayed(void *arg, const struct wall_stay *stay)
{
	struct recording *r = arg;
	double seconds = (stay->end - stay->begin) / 1e9;
	const struct wall_bucket *buckets;
	size_t count = wall_sampler_buckets(r->sampler, &buckets);
	bool is_ready = stay->bucket < count && buckets[stay->bucket].status == G_RUNNABLE;
	struct runner *runner;

	if (!array_reserve(&r->stays, &r->stay_capacity, stay->bucket + 1)) {
		r->failed = true;
		return;
	}
	if (!stay->whole) {
		r->stays[stay->bucket].seconds += seconds;
		r->stays[stay->bucket].squares += seconds * seconds;
	}
	if (!stay->runs && !is_ready)
		return;
	runner = runner_of(r, stay->goroutine);
	if (!runner)
		return;
	*(stay->runs ? &runner->running : &runner->ready) += seconds;
	runner->bucket = stay->runs ? stay->bucket : runner->bucket;
}

static struct flow *flow_of(struct recording *r, uint32_t creator)
{
	if (creator >= MOST_CREATORS || !array_reserve(&r->flows, &r->flow_capacity, creator + 1))
		return NULL;
	r->flow_count = creator >= r->flow_count ? creator + 1 : r->flow_count;
	return &r->flows[creator];
}

static size_t slice_of(const struct recording *r, uint64_t now)
{
	double slice = (now - r->first_at) / 1e9 / r->how->seconds * SLICES;

	return slice < SLICES - 1 ? (size_t)slice : SLICES - 1;
}

static void count_first(struct recording *r, const struct goroutine_record *now)
{
	struct flow *flow = flow_of(r, now->owner_creator);

	if (now->goid > r->first_ids)
		r->first_ids = now->goid;
	if (flow)
		flow->first++;
}

/* A goroutine in a system call is read again and again, because its counter does not show a run. */
static bool is_other_place(const struct goroutine_record *before,
			   const struct goroutine_record *after)
{
	return before->goid != after->goid || before->key != after->key ||
	       before->pc != after->pc || before->sp != after->sp || before->tick != after->tick;
}

static void moved(void *arg, const struct goroutine_record *before,
		  const struct goroutine_record *after, uint64_t now)
{
	struct recording *r = arg;
	bool was = goroutine_is_alive(before), is = goroutine_is_alive(after);
	bool is_other = before->goid != after->goid;
	struct flow *flow;

	r->first_at = r->first_at ?: now;
	if (now == r->first_at) {
		if (is)
			count_first(r, after);
		return;
	}
	r->moves += is_other_place(before, after);
	flow = was && (!is || is_other) ? flow_of(r, before->owner_creator) : NULL;
	if (flow) {
		flow->ended[slice_of(r, now)]++;
		flow->first_ended += before->goid <= r->first_ids;
	}
	flow = is && (!was || is_other) ? flow_of(r, after->owner_creator) : NULL;
	if (flow)
		flow->created[slice_of(r, now)]++;
}

/* ---- the places ---- */

struct naming {
	struct code code;
	const char *names[WHY_MOST_FRAMES];
	struct stack_view view;
};

static void name_stack(struct naming *to, const struct recording *r, uint32_t stack)
{
	struct stacks *stacks = goroutine_set_stacks(wall_sampler_set(r->sampler));

	to->view.count = why_names(&to->code, stacks_get(stacks, stack), to->names);
	to->view.functions = to->names;
}

static const char *function_at(const struct stack_view *view, size_t i)
{
	return i < view->count ? view->functions[i] : "";
}

/* Waits for a lock, a place or a disk count however long they last. Whoever stays elsewhere all
 * the time is not known to work. */
static bool counts_whole(enum stack_kind kind)
{
	return kind == STACK_LOCK || kind == STACK_POOL || kind == STACK_SEND || kind == STACK_DISK;
}

static bool add_place(struct recording *r, const struct wall_bucket *b, size_t i, double ns,
		      const struct naming *naming)
{
	size_t at;
	enum stack_kind kind = stack_kind_of(&naming->view, &at);
	const struct stay_sum *stay = i < r->stay_capacity ? &r->stays[i] : NULL;
	struct why_place place = {
		.kind = kind,
		.function = function_at(&naming->view, at),
		.wait = naming->view.wait,
		.goroutines = (b->ns - b->idle_ns) / ns,
		.whole = b->idle_ns / ns,
		.length = stay && stay->seconds > 0 ? stay->squares / stay->seconds : 0,
	};
	double all = place.goroutines + place.whole;

	r->n->goroutines += all;
	r->n->running += kind == STACK_RUNS ? all : 0;
	r->n->ready += kind == STACK_READY ? all : 0;
	if (kind != STACK_WORK)
		r->n->working += counts_whole(kind) ? all : place.goroutines;
	if (kind == STACK_RUNS || kind == STACK_READY || kind == STACK_WORK)
		return true;
	if (counts_whole(kind))
		r->n->of_kind[kind] += place.whole;
	return why_add_place(r->n, &place);
}

/* Connections that are in use are in use whatever their users wait for. */
static bool add_pool_use(struct recording *r, const struct wall_bucket *b, double ns,
			 const struct naming *naming)
{
	struct why_place place = {.kind = STACK_POOL_USE,
				  .wait = naming->view.wait,
				  .goroutines = b->ns / ns};
	size_t at;

	if (!stack_uses_pool(&naming->view, &at))
		return true;
	place.function = function_at(&naming->view, at);
	return why_add_place(r->n, &place);
}

struct cpu_sums {
	double all, collector, timers;
};

static void add_cpu(const struct wall_bucket *b, const struct stack_view *view,
		    struct cpu_sums *sums)
{
	sums->all += b->cpu_ns;
	if (stack_is_of_collector(view))
		sums->collector += b->cpu_ns;
	else if (stack_is_of_timers(view))
		sums->timers += b->cpu_ns;
}

static void give_cpu(struct recording *r, const struct cpu_sums *sums)
{
	if (r->running.denied) {
		r->n->cpu.unsampled = why_keep(r->n, r->running.denied->message);
		return;
	}
	r->n->cpu.samples = running_stacks_stats(&r->running).samples;
	r->n->cpu.gc = sums->all > 0 ? sums->collector / sums->all : 0;
	r->n->cpu.timers = sums->all > 0 ? sums->timers / sums->all : 0;
}

static bool give_places(struct recording *r, struct naming *naming)
{
	struct goroutine_set *set = wall_sampler_set(r->sampler);
	double ns = wall_sampler_result(r->sampler)->duration_ns;
	const struct wall_bucket *buckets;
	size_t count = wall_sampler_buckets(r->sampler, &buckets);
	struct cpu_sums sums = {0};

	for (size_t i = 0; i < count; i++) {
		const struct wall_bucket *b = &buckets[i];
		enum profile_state state = (enum profile_state)state_of(b->status);

		if (!b->ns && !b->cpu_ns)
			continue;
		name_stack(naming, r, b->stack);
		naming->view.state = state;
		naming->view.wait = state == PROFILE_WAITING
					    ? goroutine_set_wait_reason(set, b->wait_reason)
					    : "";
		add_cpu(b, &naming->view, &sums);
		if (b->ns && (!add_place(r, b, i, ns, naming) || !add_pool_use(r, b, ns, naming)))
			return false;
	}
	why_sort_places(r->n);
	give_cpu(r, &sums);
	return true;
}

/* ---- the goroutine that never waits ---- */

struct share {
	const char *function;
	uint64_t ns;
};

/* The function in which most samples of the bucket's goroutines are, and its part. */
static void name_spin(struct recording *r, uint32_t bucket, struct naming *naming)
{
	struct wall_share places[SHARES];
	struct share functions[SHARES];
	size_t count = wall_sampler_shares(r->sampler, bucket, places, SHARES), known = 0, most = 0;
	uint64_t all = 0;

	for (size_t i = 0; i < count; i++) {
		size_t at, k = 0;

		name_stack(naming, r, places[i].stack);
		naming->view.state = PROFILE_RUNNING;
		naming->view.wait = "";
		stack_kind_of(&naming->view, &at);
		while (k < known && strcmp(functions[k].function, function_at(&naming->view, at)))
			k++;
		if (k == known)
			functions[known++] = (struct share){function_at(&naming->view, at), 0};
		functions[k].ns += places[i].ns;
		all += places[i].ns;
		most = functions[k].ns > functions[most].ns ? k : most;
	}
	if (!all)
		return;
	r->n->spin.function = why_keep(r->n, functions[most].function);
	r->n->spin.in_function = (double)functions[most].ns / all;
}

static void give_spin(struct recording *r, struct naming *naming)
{
	double seconds = wall_sampler_result(r->sampler)->duration_ns / 1e9;
	struct why_spin *s = &r->n->spin;
	const struct runner *most = NULL;

	for (size_t i = 0; i < r->runner_count; i++) {
		const struct runner *one = &r->runners[i];
		bool spins = one->running + one->ready >= 0.97 * seconds && one->running > 0;

		s->goroutines += spins;
		if (spins && (!most || one->running > most->running))
			most = one;
	}
	if (!most || seconds <= 0)
		return;
	s->goroutine = most->goroutine;
	s->part = (most->running + most->ready) / seconds;
	s->running = most->running / seconds;
	s->looks = wall_sampler_result(r->sampler)->looks;
	name_spin(r, most->bucket, naming);
}

/* ---- the creators ---- */

/* Adds a goroutine to what its creator's goroutines do at the end. `stacks` counts those of a
 * creator at one stack. */
static bool count_at_end(struct recording *r, const struct goroutine_record *g, struct map *stacks)
{
	struct goroutine_set *set = wall_sampler_set(r->sampler);
	enum goroutine_status status = goroutine_status(g);
	uint8_t wait = goroutine_wait_reason(g);
	struct flow *flow = flow_of(r, g->owner_creator);
	uint64_t *count, since = wall_sampler_since(r->sampler, g);

	if (!flow)
		return true;
	if (status == G_WAITING && !strcmp(goroutine_set_wait_reason(set, wait), "IO wait"))
		flow->on_network++;
	count = map_at(stacks, (uint64_t)g->owner_creator << 32 | g->stack);
	if (!count)
		return false;
	if (++*count > flow->at_place) {
		flow->at_place = *count;
		flow->place = g->stack;
		flow->wait = wait;
		flow->status = status;
	}
	if (status == G_WAITING && (!flow->oldest || since < flow->oldest))
		flow->oldest = since;
	return true;
}

static bool count_ends(struct recording *r)
{
	struct goroutine_set *set = wall_sampler_set(r->sampler);
	const struct goroutine_record *records = goroutine_set_records(set);
	_cleanup_map_ struct map stacks = {0};

	for (size_t i = 0; i < goroutine_set_count(set); i++)
		if (wall_sampler_counts(&records[i]) && !count_at_end(r, &records[i], &stacks))
			return false;
	return true;
}

static double alive_after(const struct flow *flow, size_t slices)
{
	double alive = flow->first;

	for (size_t i = 0; i < slices; i++)
		alive += (double)flow->created[i] - flow->ended[i];
	return alive;
}

static void describe_creator(struct recording *r, uint32_t id, uint64_t now, struct naming *naming,
			     struct why_creator *ret)
{
	const struct flow *flow = &r->flows[id];
	struct goroutine_set *set = wall_sampler_set(r->sampler);
	size_t at, slices = slice_of(r, now) + 1;

	why_name_creator(&naming->code, wall_sampler_creator(r->sampler, id), r->n, ret);
	ret->first = flow->first;
	for (size_t i = 0; i < WHY_PARTS; i++)
		ret->alive[i] = alive_after(flow, (i + 1) * slices / WHY_PARTS);
	ret->ended = flow->first_ended;
	ret->on_network = flow->on_network;
	ret->at_place = flow->at_place;
	ret->oldest = flow->oldest && flow->oldest < now ? (now - flow->oldest) / 1e9 : 0;
	name_stack(naming, r, flow->place);
	naming->view.state = (enum profile_state)state_of(flow->status);
	ret->wait = flow->status == G_WAITING
			    ? why_keep(r->n, goroutine_set_wait_reason(set, flow->wait))
			    : profile_state_name(naming->view.state);
	naming->view.wait = naming->view.state == PROFILE_WAITING ? ret->wait : "";
	ret->is_work = stack_kind_of(&naming->view, &at) == STACK_WORK;
	ret->place = why_keep(r->n, function_at(&naming->view, at));
}

static bool give_creators(struct recording *r, struct naming *naming)
{
	uint64_t now = r->first_at + wall_sampler_result(r->sampler)->duration_ns;
	struct why_numbers *n = r->n;

	if (!count_ends(r))
		return false;
	n->creators = calloc(r->flow_count + 1, sizeof(*n->creators));
	for (uint32_t id = 0; n->creators && id < r->flow_count; id++) {
		const struct flow *flow = &r->flows[id];
		uint64_t created = flow->first;

		for (size_t i = 0; i < SLICES; i++)
			created += flow->created[i];
		if (created >= LEAST_OF_CREATOR)
			describe_creator(r, id, now, naming, &n->creators[n->creator_count++]);
	}
	return n->creators;
}

/* ---- */

static struct error *must_check open_recording(struct recording *r)
{
	struct gospect_target *t = r->how->target;
	const struct wall_options sample = {
		.hz = HZ,
		.budget = BUDGET,
		.duration = r->how->seconds,
		.stack_limit = STACK_LIMIT,
		.whole_first = true,
		.creators = true,
		.moved = moved,
		.moved_arg = r,
		.stayed = stayed,
		.stayed_arg = r,
		.held = t->is_held,
		.stop = t->cancel,
		.progress = tick,
		.arg = r,
	};
	/* The collector's threads and those that fire timers work for no goroutine. */
	const struct oncpu_options running = {.hz = HZ,
					      .no_goroutine = true,
					      .sample_program = true};
	struct error *err;

	err = wall_sampler_open(t->target, t->image, t->layout, &sample, &r->sampler);
	if (err)
		return err;
	stacks_limit(goroutine_set_stacks(wall_sampler_set(r->sampler)), MAX_STACK_WORDS);
	running_stacks_open(&r->running, t->target, t->image, t->layout, &running, r->sampler);
	return NULL;
}

struct error *why_record(const struct why_recording *how, struct why_numbers *n, bool *ret_ended)
{
	_cleanup_recording_ struct recording r = {.how = how, .n = n};
	struct naming naming = {0};
	struct error *err = open_recording(&r);

	if (!err)
		err = wall_sampler_run(r.sampler);
	if (err)
		return err;
	*ret_ended = wall_sampler_result(r.sampler)->ended;
	n->seconds = wall_sampler_result(r.sampler)->duration_ns / 1e9;
	n->moves = r.moves;
	naming.code = (struct code){.functions = &how->target->image->functions,
				    .modules = running_stacks_modules(&r.running)};
	if (r.failed || n->seconds <= 0 || !give_places(&r, &naming) || !give_creators(&r, &naming))
		return n->seconds > 0 ? &error_no_memory : NULL;
	give_spin(&r, &naming);
	return NULL;
}
