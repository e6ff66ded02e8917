#include "waits/wait_graph.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "waits/room.h"

#define UNIT_BYTES (256u << 10)
/* How often goroutines that ran meanwhile are read again. */
#define LOOKS 4
/* runtime.schedt.lastpoll, behind goidgen, in Go 1.17 to 1.27: as dump/dump.c has it. */
#define SCHED_LASTPOLL 8

/* ---- goroutines ---- */

static struct wait_goroutine *goroutine_of(struct wait_graph *w, uint64_t g)
{
	uint64_t *place = map_at(&w->by_g, g);

	if (!place)
		return NULL;
	if (!*place) {
		if (!array_reserve(&w->goroutines, &w->capacity, w->count + 1))
			return NULL;
		w->goroutines[w->count++] = (struct wait_goroutine){.g = g};
		*place = w->count;
	}
	return &w->goroutines[*place - 1];
}

static void mark_changed(struct wait_graph *w, uint64_t g)
{
	const uint64_t *place = map_find(&w->by_g, g);

	if (place)
		w->goroutines[*place - 1].changed = true;
}

static struct error *changed(void *arg, const struct goroutine_record *before,
			     struct goroutine_record *now, const uint8_t *header)
{
	struct wait_graph *w = arg;
	struct g_view v = {&w->lay->n, header};
	struct goroutine_details d;
	struct wait_goroutine *g;

	if (w->options.stop && atomic_load(w->options.stop))
		return &error_stopped;
	goroutine_details(w->set, header, &d);
	if (w->confirming) {
		mark_changed(w, d.g);
		return NULL;
	}
	g = goroutine_of(w, d.g);
	if (!g)
		return &error_no_memory;
	*g = (struct wait_goroutine){
		.id = now->goid,
		.g = d.g,
		.waiting = g_view_waiting(v),
		.timer = g_view_timer(v),
		.stack_hi = g_view_stack_hi(v),
		.sp = now->sp,
		.pc = now->pc,
		.lr = g_view_sched_lr(v),
		.fp = g_view_sched_bp(v),
		.since = d.wait_since,
		.stack_lo = g_view_stack_lo(v),
		.bubble = d.bubble,
		.go_pc = d.go_pc,
		.start_pc = d.start_pc,
		.key = now->key,
		.stack = now->stack,
		.look = w->looks,
		.status = goroutine_status(now),
		.reason = goroutine_wait_reason(now),
		.alive = goroutine_is_alive(now),
		.system = now->flags & GOROUTINE_SYSTEM,
		.changed = true,
	};
	g->has_stack = g->alive && g->status != G_RUNNING && !(now->flags & GOROUTINE_UNKNOWN);
	return NULL;
}

/* In a truncated core file each goroutine is read alone, so a missing one does not affect others.
 */
static struct error *scan_all(struct wait_graph *w)
{
	const struct target_core *core = target_core(w->t);
	bool alone = core && core->truncated;
	_cleanup_free_ uint32_t *order = NULL;
	const struct goroutine_unit *units;
	size_t count, scanned = 0;
	struct error *err = goroutine_set_refresh(w->set);

	if (!err)
		err = goroutine_set_plan(w->set, alone ? 1 : UNIT_BYTES, &units, &count);
	if (err)
		return err;
	order = malloc((count + 1) * sizeof(*order));
	if (!order)
		return &error_no_memory;
	for (size_t i = 0; i < count; i++)
		order[i] = i;
	for (size_t i = 0; !err && i < count; i += scanned)
		err = goroutine_set_scan(w->set, order + i, alone ? 1 : count - i, &scanned);
	return err;
}

static bool any_changed(const struct wait_graph *w)
{
	for (size_t i = 0; i < w->count; i++) {
		const struct wait_goroutine *g = &w->goroutines[i];

		if (g->changed && g->alive && (g->status == G_WAITING || g->status == G_SYSCALL))
			return true;
	}
	return false;
}

/* An estimate of when a core file was written: when the runtime last polled the network, or the
 * latest known begin of a wait. */
static uint64_t last_moment(const struct wait_graph *w)
{
	uint64_t last;

	if (error_dropped(target_read_u64(w->t, w->lay->v.sched + SCHED_LASTPOLL, &last)))
		return 0;
	for (size_t i = 0; last && i < w->count; i++)
		if (w->goroutines[i].since > last)
			last = w->goroutines[i].since;
	return last;
}

/* Reads again until no goroutine ran while its wait was read. */
struct error *wait_graph_look(struct wait_graph *w)
{
	struct error *err;

	w->looks++;
	err = scan_all(w);

	for (int i = 0; !err && i < LOOKS && any_changed(w); i++) {
		err = wait_graph_find(w);
		if (!err && !target_stands_still(w->t))
			err = scan_all(w);
	}
	w->taken = target_core(w->t) ? last_moment(w) : clock_now();
	return err;
}

static void count_goroutines(struct wait_graph *w)
{
	for (size_t i = 0; i < w->count; i++) {
		struct wait_goroutine *g = &w->goroutines[i];

		if (!g->alive)
			g->edge_count = 0;
		if (!g->alive || (g->system && !w->options.system))
			continue;
		w->alive++;
		w->running += g->status == G_RUNNING;
		w->moved += g->changed && g->status == G_WAITING;
		w->unknown += !g->changed && g->status == G_WAITING && !g->edge_count;
		if (g->changed)
			g->edge_count = 0;
	}
}

struct error *wait_graph_explain(struct wait_graph *w)
{
	struct error *err;

	count_goroutines(w);
	err = wait_graph_group(w);
	if (w->options.connections_only)
		return err ? err : wait_graph_find_sockets(w);
	if (!err)
		err = wait_graph_find_holders(w);
	if (!err)
		err = wait_graph_name(w);
	if (!err)
		err = wait_graph_find_sockets(w);
	if (!err)
		err = wait_graph_find_cycles(w);
	/* A cycle counts if none of its goroutines has run since before it was found. */
	if (!err && w->cycle_count && !target_stands_still(w->t)) {
		w->confirming = true;
		err = scan_all(w);
		wait_graph_confirm_cycles(w);
	}
	return err;
}

struct error *wait_graph_open(struct target *t, const struct image *img, const struct golayout *lay,
			      const struct wait_graph_options *options, struct wait_graph **ret)
{
	_cleanup_wait_graph_ struct wait_graph *w = calloc(1, sizeof(*w));
	struct goroutine_options how = {.stack_limit = WAITS_MAX_STACK,
					.changed = changed,
					.arg = w};
	struct error *err;

	if (!w)
		return &error_no_memory;
	w->t = t;
	w->img = img;
	w->lay = lay;
	w->options = *options;
	err = goroutine_set_open(t, img, lay, &how, &w->set);
	if (!err)
		*ret = take_ptr(w);
	return err;
}

struct error *wait_graph_take(struct target *t, const struct image *img, const struct golayout *lay,
			      const struct wait_graph_options *options, struct wait_graph **ret)
{
	_cleanup_wait_graph_ struct wait_graph *w = NULL;
	struct error *err = wait_graph_open(t, img, lay, options, &w);

	if (!err)
		err = wait_graph_look(w);
	if (!err)
		err = wait_graph_explain(w);
	if (!err)
		err = target_check(t);
	if (!err)
		*ret = take_ptr(w);
	return err;
}

void wait_graph_destroy(struct wait_graph *w)
{
	if (!w)
		return;
	for (size_t i = 0; i < w->cycle_count; i++)
		free(w->cycles[i].steps);
	free(w->cycles);
	free(w->holders);
	free(w->waiters);
	free(w->objects);
	free(w->edges);
	free(w->goroutines);
	map_release(&w->by_g);
	arena_release(&w->strings);
	goroutine_set_close(w->set);
	free(w);
}
