/*
 * Three ways to find the callers on a stack, side by side, on the stacks of a running program.
 *
 *	unwind_bench PID SECONDS HZ
 *
 * prints one line of JSON. "running": for SECONDS by each method the threads are sampled, and each
 * sample's stack is held against the one by pcsp of the very same sample: how many were the same
 * (right), left out one caller (lost), had one twice, ended early (cut), or were something else.
 * "parked": what it costs to unwind the stacks of its parked goroutines, in ns of CPU time a stack,
 *	again	a stack that was seen before, as most are
 *	known	one whose frames were, each by itself
 *	chain	of frame pointers: following them alone, without a look at the addresses
 * and in ns a frame
 *	lookup	what the table says of a pc that was not seen before
 *	symbolize	its function, file and line, and the calls inlined there
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "goroutine/goroutine_snapshot.h"
#include "oncpu/sampler.h"

#define UNIT_BYTES (256u << 10)
#define STACK_LIMIT (64u << 10)
#define MAX_SNAPSHOTS 1000
#define LEAST_NS 50000000ull
#define METHODS 3

struct outcomes {
	uint64_t samples, right, lost, twice, cut, other;
};

struct bench {
	struct target *t;
	struct image *img;
	struct golayout *lay;
	struct debug_frame *frames;
	struct goroutine_snapshot snapshots[MAX_SNAPSHOTS];
	size_t count;
	size_t frame_count; /* of all of them */
	/* For the current sampling. */
	struct stacks *stacks;
	struct outcomes outcomes;
};

static struct error *bench_open(struct bench *b, pid_t pid)
{
	bool starting;
	struct error *err = target_open_process(pid, &b->t);

	if (!err)
		err = image_open(b->t, NULL, &b->img);
	if (!err)
		err = golayout_open(b->img, b->t, &b->lay);
	if (!err)
		err = golayout_validate(b->lay, b->img, b->t, &starting);
	return err ? err : debug_frame_open(b->img, &b->frames);
}

static struct unwinding unwinding_of(const struct bench *b, enum unwind_method method)
{
	return (struct unwinding){method, method == UNWIND_DWARF ? b->frames : NULL};
}

static struct error *open_set(struct bench *b, enum unwind_method method,
			      struct goroutine_set **ret)
{
	struct goroutine_options options = {
		.stack_limit = STACK_LIMIT,
		.unwind = unwinding_of(b, method),
	};
	struct error *err = goroutine_set_open(b->t, b->img, b->lay, &options, ret);

	return err ? err : goroutine_set_refresh(*ret);
}

static struct error *look_at_all(struct goroutine_set *set)
{
	_cleanup_free_ uint32_t *order = NULL;
	const struct goroutine_unit *units;
	size_t count, scanned;
	struct error *err = goroutine_set_plan(set, UNIT_BYTES, &units, &count);

	if (err)
		return err;
	order = calloc(count + 1, sizeof(*order));
	if (!order)
		return &error_no_memory;
	for (size_t i = 0; i < count; i++)
		order[i] = i;
	for (size_t at = 0; !err && at < count; at += scanned)
		err = goroutine_set_scan(set, order + at, count - at, &scanned);
	return err;
}

/* Whether `longer` is `shorter` with one more word somewhere. */
static bool has_one_more(struct stack longer, struct stack shorter)
{
	size_t i = 0;

	if (longer.count != shorter.count + 1)
		return false;
	while (i < shorter.count && longer.pcs[i] == shorter.pcs[i])
		i++;
	return !memcmp(longer.pcs + i + 1, shorter.pcs + i,
		       (shorter.count - i) * sizeof(*shorter.pcs));
}

static void take(void *arg, const struct oncpu_sighting *seen)
{
	struct bench *b = arg;
	struct outcomes *o = &b->outcomes;
	struct stack shown = stacks_get(b->stacks, seen->stack);
	struct stack exact = stacks_get(b->stacks, seen->exact);

	o->samples++;
	if (exact.truncated)
		o->cut += shown.truncated, o->other += !shown.truncated;
	else if (seen->stack == seen->exact)
		o->right++;
	else if (has_one_more(exact, shown))
		o->lost++;
	else if (has_one_more(shown, exact))
		o->twice++;
	else if (shown.truncated)
		o->cut++;
	else
		o->other++;
}

static struct error *sample(struct bench *b, enum unwind_method method, double seconds, double hz)
{
	struct oncpu_options options = {.hz = hz, .seen = take, .arg = b};
	_cleanup_goroutine_set_ struct goroutine_set *set = NULL;
	_cleanup_oncpu_sampler_ struct oncpu_sampler *sampler = NULL;
	uint64_t end = clock_now() + seconds * 1e9;
	struct error *err = open_set(b, method, &set);

	if (err)
		return err;
	b->outcomes = (struct outcomes){0};
	b->stacks = goroutine_set_stacks(set);
	err = oncpu_sampler_open(b->t, b->img, b->lay, set, &options, &sampler);
	while (!err && clock_now() < end) {
		usleep(5000);
		err = goroutine_set_refresh(set);
		if (!err)
			err = oncpu_sampler_drain(sampler);
	}
	return err;
}

static struct error *sample_all(struct bench *b, double seconds, double hz)
{
	for (enum unwind_method m = 0; m < METHODS; m++) {
		const struct outcomes *o = &b->outcomes;
		struct error *err = sample(b, m, seconds, hz);

		if (err)
			return err;
		printf("%s\"%s\": {\"samples\": %lu, \"right\": %lu, \"lost\": %lu, \"twice\": %lu, "
		       "\"cut\": %lu, \"other\": %lu}",
		       m ? ", " : "", unwind_method_name(m), o->samples, o->right, o->lost,
		       o->twice, o->cut, o->other);
	}
	return NULL;
}

/* The stacks of parked goroutines; running ones are left out. */
static struct error *take_snapshots(struct bench *b)
{
	_cleanup_goroutine_set_ struct goroutine_set *set = NULL;
	struct error *err = open_set(b, UNWIND_PCSP, &set);

	if (!err)
		err = look_at_all(set);
	for (size_t i = 0; !err && i < goroutine_set_count(set) && b->count < MAX_SNAPSHOTS; i++) {
		const struct goroutine_record *r = &goroutine_set_records(set)[i];
		struct goroutine_snapshot *s = &b->snapshots[b->count];
		bool runs;

		if (goroutine_status(r) != G_WAITING ||
		    error_dropped(goroutine_snapshot_take(set, r->goid, &runs, s)) || runs)
			continue;
		s->memory.lr = b->img->machine == MACHINE_AMD64 ? 0 : s->memory.lr;
		b->frame_count += s->frames.count;
		b->count++;
	}
	if (!err && !b->count)
		err = error_format(ERROR_FAILED, "no goroutine is parked");
	return err;
}

/* Unwinds all stacks once. A stack with a link register is walked, not recognised: without a real
 * one, any number will do. */
static struct error *unwind_all(struct bench *b, struct stacks *stacks, bool walk)
{
	struct error *err = NULL;
	uint32_t id;

	for (size_t i = 0; !err && i < b->count; i++) {
		struct stack_memory m = b->snapshots[i].memory;

		if (walk && b->img->machine == MACHINE_AMD64)
			m.lr = 1;
		err = stacks_unwind(stacks, &m, &id);
	}
	return err;
}

static struct error *time_known(struct bench *b, enum unwind_method method, bool walk,
				double *ret_ns)
{
	const struct unwinding by = unwinding_of(b, method);
	_cleanup_stacks_ struct stacks *stacks = stacks_create(&b->img->functions, b->img->machine);
	uint64_t begin, passed = 0, rounds = 0;
	struct error *err;

	if (!stacks)
		return &error_no_memory;
	stacks_unwind_by(stacks, &by);
	err = unwind_all(b, stacks, walk);
	begin = clock_cpu();
	for (; !err && passed < LEAST_NS; rounds++) {
		err = unwind_all(b, stacks, walk);
		passed = clock_cpu() - begin;
	}
	*ret_ns = rounds ? (double)passed / rounds / b->count : 0;
	return err;
}

/* What pcsp and .debug_frame are asked for each frame that is new. */
static bool look_up(const struct bench *b, enum unwind_method method, uint64_t pc)
{
	const struct pclntab *functions = &b->img->functions;
	struct go_func f;
	int32_t delta;

	if (method == UNWIND_DWARF)
		return debug_frame_sp_delta(b->frames, pc, &delta);
	return pclntab_find(functions, pc, &f) && pclntab_sp_delta(&f, pc) >= 0;
}

static double time_lookup(const struct bench *b, enum unwind_method method)
{
	uint64_t begin = clock_cpu(), passed = 0, done = 0;

	for (size_t i = 0; passed < LEAST_NS; i++) {
		const struct frames *f = &b->snapshots[i % b->count].frames;

		for (size_t k = 0; k < f->count; k++, done++)
			look_up(b, method, stack_pc_address(f->items[k].word));
		passed = clock_cpu() - begin;
	}
	return (double)passed / done;
}

/* Follows the frame records without checking the addresses; returns their number. */
static size_t follow_chain(const struct stack_memory *m)
{
	uint64_t fp = m->fp, record[2];
	size_t count = 0;

	while (fp >= m->sp && fp - m->sp <= m->size - sizeof(record)) {
		memcpy(record, m->bytes + (fp - m->sp), sizeof(record));
		count += record[1] != 0;
		if (record[0] <= fp)
			break;
		fp = record[0];
	}
	return count;
}

static double time_chain(const struct bench *b)
{
	uint64_t begin = clock_cpu(), passed = 0, rounds = 0;
	size_t found = 0;

	for (; passed < LEAST_NS; rounds++) {
		for (size_t i = 0; i < b->count; i++)
			found += follow_chain(&b->snapshots[i].memory);
		passed = clock_cpu() - begin;
	}
	__asm__ volatile("" : : "r"(found)); /* or the compiler leaves the work out */
	return (double)passed / rounds / b->count;
}

static struct error *time_methods(struct bench *b)
{
	double again = 0, known = 0;

	printf("\"stacks\": %zu, \"frames\": %.2f", b->count, (double)b->frame_count / b->count);
	for (enum unwind_method m = 0; m < METHODS; m++) {
		struct error *err = time_known(b, m, false, &again);

		if (!err)
			err = time_known(b, m, true, &known);
		if (err)
			return err;
		printf(", \"%s\": {\"again\": %.1f, \"known\": %.1f", unwind_method_name(m), again,
		       known);
		if (m == UNWIND_FP)
			printf(", \"chain\": %.1f}", time_chain(b));
		else
			printf(", \"lookup\": %.1f}", time_lookup(b, m));
	}
	return NULL;
}

/* A frame with its inlined calls: function, file and line. */
static void time_symbols(struct bench *b)
{
	uint64_t begin = clock_cpu(), passed = 0, done = 0;
	struct go_frame frames[16];

	for (size_t i = 0; passed < LEAST_NS; i++) {
		const struct frames *f = &b->snapshots[i % b->count].frames;

		for (size_t k = 0; k < f->count; k++, done++)
			pclntab_frames(&b->img->functions, f->items[k].word, frames,
				       ARRAY_SIZE(frames));
		passed = clock_cpu() - begin;
	}
	printf(", \"symbolize\": %.1f", (double)passed / done);
}

static struct error *bench_run(struct bench *b, pid_t pid, double seconds, double hz)
{
	struct error *err = bench_open(b, pid);

	if (err)
		return err;
	printf("{\"running\": {");
	err = sample_all(b, seconds, hz);
	printf("}, \"parked\": {");
	if (!err)
		err = take_snapshots(b);
	if (!err)
		err = time_methods(b);
	if (!err)
		time_symbols(b);
	printf("}}\n");
	return err;
}

static void bench_close(struct bench *b)
{
	for (size_t i = 0; i < b->count; i++)
		goroutine_snapshot_release(&b->snapshots[i]);
	debug_frame_close(b->frames);
	golayout_close(b->lay);
	image_close(b->img);
	target_close(b->t);
}

int main(int argc, char **argv)
{
	static struct bench b;
	double seconds = argc == 4 ? atof(argv[2]) : 0, hz = argc == 4 ? atof(argv[3]) : 0;
	_cleanup_error_ struct error *err = NULL;

	if (seconds <= 0 || hz <= 0) {
		fprintf(stderr, "unwind_bench: usage: unwind_bench PID SECONDS HZ\n");
		return 2;
	}
	err = bench_run(&b, atoi(argv[1]), seconds, hz);
	bench_close(&b);
	if (err)
		fprintf(stderr, "unwind_bench: %s\n", err->message);
	return err != NULL;
}
