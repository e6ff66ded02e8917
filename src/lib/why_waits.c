/* Who waits for whom (src/waits), looked at some times in a row: locks and queues with many
 * waiters, their holders, cycles, and the peers of connections. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "lib/goroutine_filter.h"
#include "lib/why.h"
#include "waits/wait_graph.h"
#include "waits/wait_words.h"

#define PAUSE_NS 40000000L
#define MOST_OBJECTS 256
#define MOST_STEPS 6
#define MOST_PEERS 1024

struct looking {
	struct gospect_target *target;
	struct why_numbers *n;
	unsigned int looks;
	size_t object_capacity;
	uint64_t addresses[MOST_OBJECTS]; /* of n->objects */
};

static const char *keep_buf(struct why_numbers *n, const struct strbuf *sb)
{
	return why_keep(n, sb->failed ? "" : sb->data);
}

/* ---- cycles ---- */

static void add_step(struct strbuf *sb, const struct wait_graph *w, const struct wait_cycle *c,
		     size_t i)
{
	const struct wait_goroutine *g = &w->goroutines[c->steps[i].goroutine];
	const struct wait_goroutine *next = &w->goroutines[c->steps[(i + 1) % c->count].goroutine];

	strbuf_addf(sb, "%sgoroutine %lu in ", i ? "; " : "", g->id);
	words_add_place(sb, &g->place);
	strbuf_adds(sb, " waits for ");
	words_add_object(sb, &w->objects[c->steps[i].object]);
	strbuf_addf(sb, ", which goroutine %lu %s", next->id, c->proved ? "holds" : "may hold");
}

static bool add_cycles(struct looking *l, const struct wait_graph *w)
{
	struct why_numbers *n = l->n;

	if (n->cycle_count || !w->cycle_count)
		return true;
	n->cycles = calloc(w->cycle_count, sizeof(*n->cycles));
	if (!n->cycles)
		return false;
	for (size_t i = 0; i < w->cycle_count; i++) {
		_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
		const struct wait_cycle *c = &w->cycles[i];

		for (size_t k = 0; !i && k < c->count && k < MOST_STEPS; k++)
			add_step(&sb, w, c, k);
		if (!i && c->count > MOST_STEPS)
			strbuf_addf(&sb, "; and %zu more", c->count - MOST_STEPS);
		n->cycles[n->cycle_count++] =
			(struct why_cycle){c->count, c->proved, keep_buf(n, &sb)};
	}
	return true;
}

/* ---- locks and queues ---- */

static size_t senders_of(const struct wait_graph *w, const struct wait_object *o)
{
	size_t count = 0;

	for (size_t i = 0; i < o->waiter_count; i++)
		count += w->edges[o->waiters[i]].side == WAIT_SEND &&
			 !w->edges[o->waiters[i]].is_case;
	return count;
}

static size_t waiters_of(const struct wait_graph *w, const struct wait_object *o)
{
	if (o->kind == WAIT_MUTEX || o->kind == WAIT_RWMUTEX)
		return o->waiter_count;
	return o->kind == WAIT_CHANNEL && o->known && o->capacity && o->length >= o->capacity
		       ? senders_of(w, o)
		       : 0;
}

/* The same function holds it again, whichever goroutine that is. */
static void add_holder(struct looking *l, const struct wait_graph *w, const struct wait_object *o,
		       struct why_holder *to)
{
	const struct wait_holder *h = o->holders;
	const struct wait_goroutine *g = o->holder_count ? &w->goroutines[h->goroutine] : NULL;
	const char *function;

	if (!g)
		return;
	function = *h->place.function ? h->place.function : g->place.function;
	if (to->function && !strcmp(to->function, function)) {
		to->looks++;
		to->goroutine = to->goroutine == g->id ? g->id : 0;
		return;
	}
	if (to->function && (to->proved || !h->proved))
		return;
	*to = (struct why_holder){.goroutine = g->id,
				  .function = why_keep(l->n, function),
				  .stands = why_keep(l->n, wait_state(w, g)),
				  .proved = h->proved,
				  .reason = why_keep(l->n, h->why ?: ""),
				  .looks = 1};
}

static bool add_object(struct looking *l, const struct wait_graph *w, const struct wait_object *o,
		       size_t waiters)
{
	struct why_numbers *n = l->n;
	size_t i = 0;

	while (i < n->object_count && l->addresses[i] != o->address)
		i++;
	if (i == MOST_OBJECTS)
		return true;
	if (i == n->object_count) {
		_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;

		if (!array_reserve(&n->objects, &l->object_capacity, n->object_count + 1))
			return false;
		words_add_object(&name, o);
		l->addresses[n->object_count++] = o->address;
		n->objects[i] = (struct why_object){.name = keep_buf(n, &name),
						    .function = why_keep(n, o->site.function),
						    .length = o->length,
						    .capacity = o->capacity};
	}
	n->objects[i].waiters += (double)waiters / l->looks;
	n->objects[i].looks++;
	add_holder(l, w, o, &n->objects[i].holder);
	return true;
}

static bool add_objects(struct looking *l, const struct wait_graph *w)
{
	for (size_t i = 0; i < w->object_count; i++) {
		size_t waiters = waiters_of(w, &w->objects[i]);

		if (waiters && !add_object(l, w, &w->objects[i], waiters))
			return false;
	}
	return true;
}

static int by_waiters(const void *a, const void *b)
{
	const struct why_object *x = a, *y = b;

	return (x->waiters < y->waiters) - (x->waiters > y->waiters);
}

/* ---- peers ---- */

struct peer {
	const char *address;
	size_t at_work; /* goroutines that wait for it within their work */
	size_t clients; /* goroutines that read its answers for others */
	int64_t fd;
};

static void count_waiter(struct looking *l, const struct wait_graph *w, uint32_t edge,
			 struct peer *to)
{
	const struct wait_goroutine *g = &w->goroutines[w->edges[edge].goroutine];
	const struct code code = {.functions = &l->target->image->functions};
	const char *names[WHY_MOST_FRAMES];
	struct stack_view view = {.state = (enum profile_state)state_of(g->status),
				  .wait = wait_state(w, g),
				  .functions = names};
	size_t at;

	view.count = why_names(&code, stacks_get(goroutine_set_stacks(w->set), g->stack), names);
	if (stack_is_of_client(&view))
		to->clients++;
	else if (stack_kind_of(&view, &at) == STACK_PEER)
		to->at_work++;
}

static void add_peer(struct looking *l, const struct wait_graph *w, const struct wait_object *o,
		     struct peer *peers, size_t *count)
{
	size_t i = 0;

	while (i < *count && strcmp(peers[i].address, o->remote))
		i++;
	if (i == MOST_PEERS)
		return;
	if (i == *count)
		peers[(*count)++] = (struct peer){.address = o->remote, .fd = o->fd};
	for (size_t k = 0; k < o->waiter_count; k++)
		count_waiter(l, w, o->waiters[k], &peers[i]);
}

/* Who waits by itself says more than connections whose answers others wait for. */
static bool is_more(const struct peer *a, const struct peer *b)
{
	return a->at_work != b->at_work ? a->at_work > b->at_work : a->clients > b->clients;
}

static bool find_peer(struct looking *l, const struct wait_graph *w)
{
	_cleanup_free_ struct peer *peers = calloc(MOST_PEERS, sizeof(*peers));
	const struct peer *most = peers;
	size_t count = 0;

	if (!peers)
		return false;
	for (size_t i = 0; i < w->object_count; i++)
		if (w->objects[i].kind == WAIT_NETWORK && *w->objects[i].remote)
			add_peer(l, w, &w->objects[i], peers, &count);
	for (size_t i = 1; i < count; i++)
		most = is_more(&peers[i], most) ? &peers[i] : most;
	if (!count || (!most->at_work && !most->clients))
		return true;
	l->n->peer = (struct why_peer){
		.address = why_keep(l->n, most->address),
		.goroutines = most->at_work ? most->at_work : most->clients,
		.fd = most->fd,
		.is_client = !most->at_work,
	};
	return true;
}

/* ---- */

static void pause_for(long ns)
{
	struct timespec pause = {.tv_nsec = ns};

	nanosleep(&pause, NULL);
}

static struct error *must_check look(struct looking *l, bool last)
{
	const struct gospect_target *t = l->target;
	/* A first Ctrl-C ended the recording; these looks take some milliseconds. */
	const struct wait_graph_options how = {.stop = atomic_load(t->cancel) ? NULL : t->cancel};
	_cleanup_wait_graph_ struct wait_graph *w = NULL;
	struct error *err = wait_graph_take(t->target, t->image, t->layout, &how, &w);

	if (err)
		return err == &error_stopped ? err : target_explain(t->target, err);
	l->n->goroutines = l->n->goroutines ?: w->alive;
	if (!add_cycles(l, w) || !add_objects(l, w) || (last && !find_peer(l, w)))
		return &error_no_memory;
	return NULL;
}

struct error *why_waits(struct gospect_target *t, unsigned int looks, struct why_numbers *n)
{
	struct looking l = {.target = t, .n = n, .looks = looks};
	struct error *err = NULL;

	for (unsigned int i = 0; !err && i < looks; i++) {
		if (i)
			pause_for(PAUSE_NS);
		err = look(&l, i + 1 == looks);
	}
	if (n->object_count)
		qsort(n->objects, n->object_count, sizeof(*n->objects), by_waiters);
	return err;
}
