#include "collect/states_at_start.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "golayout/view.h"
#include "gotrace/step.h"

/* Goroutines that are read at once. */
#define BATCH 256

/* More than a program has; a hostile one's list may be longer. */
#define MAX_LIST (1ull << 25)
#define MAX_READ (1u << 22)

static bool status_of(uint32_t state, enum trace_status *ret)
{
	switch (state & ~G_SCAN) {
	case G_RUNNABLE:
		*ret = TRACE_RUNNABLE;
		return true;
	case G_RUNNING:
	case G_COPYSTACK:
		*ret = TRACE_RUNNING;
		return true;
	case G_SYSCALL:
		*ret = TRACE_IN_SYSCALL;
		return true;
	case G_WAITING:
	case G_PREEMPTED:
	case G_LEAKED:
		*ret = TRACE_WAITING;
		return true;
	}
	return false;
}

/*
 * The thread and the P of an M; unreadable ones are unknown. A goroutine that waits but is still
 * its M's current one only pretends to wait: its stack is being scanned, or the world is stopped.
 */
static void read_m(struct target *t, const struct golayout *lay, uint64_t m, uint64_t address,
		   struct snapshot_goroutine *g)
{
	uint64_t procid, p, curg = 0;
	uint32_t id;

	if (m && g->status == TRACE_WAITING) {
		if (error_dropped(target_read_u64(t, m_at_curg(&lay->n, m), &curg)) ||
		    curg != address)
			return;
		g->status = TRACE_RUNNING;
	}
	if (!m || error_dropped(target_read_u64(t, m_at_procid(&lay->n, m), &procid)) || !procid)
		return;
	g->m = procid;
	if (!error_dropped(target_read_u64(t, m_at_p(&lay->n, m), &p)) && p &&
	    !error_dropped(target_read_u32(t, p_at_id(&lay->n, p), &id)))
		g->p = id;
}

/* It runs, but has not passed exitsyscall()'s hook, which from Go 1.26 on is behind the change of
 * its state; or it is about to enter a system call that blocks, and soon has no P. */
static bool is_in_syscall_still(const struct golayout *lay, struct g_view g)
{
	return lay->minor >= 26 && g_view_syscallsp(g);
}

static struct error *must_check take(struct snapshot *s, struct target *t,
				     const struct golayout *lay, uint64_t address,
				     struct g_view header)
{
	struct snapshot_goroutine g = {.m = TRACE_NO_M, .p = TRACE_NO_P};

	g.address = address;
	g.labels = g_view_labels(header);
	g.goid = g_view_goid(header);
	g.start_pc = g_view_startpc(header);
	if (!g.goid || !status_of(g_view_status(header), &g.status))
		return NULL;
	if (g.status == TRACE_RUNNING && is_in_syscall_still(lay, header))
		g.status = TRACE_IN_SYSCALL;
	if (g.status != TRACE_RUNNABLE)
		read_m(t, lay, g_view_m(header), address, &g);
	if (!array_reserve(&s->items, &s->capacity, s->count + 1))
		return &error_no_memory;
	s->items[s->count++] = g;
	return NULL;
}

static struct error *must_check take_batch(struct snapshot *s, struct target *t,
					   const struct golayout *lay, const uint64_t *gs,
					   size_t count, uint8_t *headers, size_t size)
{
	struct target_range ranges[BATCH];
	bool ok[BATCH];
	struct error *err;

	for (size_t i = 0; i < count; i++)
		ranges[i] = (struct target_range){gs[i], size, headers + i * size};
	err = target_read_each(t, ranges, count, ok);
	for (size_t i = 0; !err && i < count; i++)
		if (ok[i])
			err = take(s, t, lay, gs[i], (struct g_view){&lay->n, headers + i * size});
	return err;
}

/* The next pointers of the list; *ret_count is 0 behind its end. The list may grow, and move. */
static struct error *must_check read_list(struct target *t, const struct golayout *lay, uint64_t at,
					  uint64_t gs[BATCH], size_t *ret_count)
{
	uint64_t count, list;
	struct error *err = target_read_u64(t, lay->v.allglen, &count);

	*ret_count = 0;
	if (!err)
		err = target_read_u64(t, lay->v.allgptr, &list);
	if (!err && !at)
		err = golayout_check_count(lay, t, count);
	if (err || at >= count || at >= MAX_LIST)
		return err;
	*ret_count = count - at < BATCH ? count - at : BATCH;
	return target_read(t, list + at * sizeof(gs[0]), gs, *ret_count * sizeof(gs[0]));
}

struct error *snapshot_read(struct target *t, const struct golayout *lay, uint64_t most_ns,
			    struct snapshot *ret)
{
	size_t size = golayout_g_bytes(&lay->n);
	_cleanup_free_ uint8_t *headers = malloc(BATCH * size);
	uint64_t gs[BATCH], began = clock_now(), at = 0;
	struct snapshot s = {0};
	struct error *err;
	size_t count;

	if (!headers)
		return &error_no_memory;
	do {
		err = read_list(t, lay, at, gs, &count);
		if (!err && count)
			err = take_batch(&s, t, lay, gs, count, headers, size);
		at += count;
	} while (!err && count && s.count < MAX_READ && clock_now() - began < most_ns);
	if (err) {
		snapshot_release(&s);
		return err;
	}
	*ret = s;
	return NULL;
}

/* The next so many that have labels. */
static struct error *must_check read_some_labels(struct snapshot *s, struct labels *labels)
{
	struct labelled items[LABELS_BATCH];
	size_t places[LABELS_BATCH], n = 0;
	struct error *err;

	for (; s->labelled < s->count && n < LABELS_BATCH; s->labelled++) {
		const struct snapshot_goroutine *g = &s->items[s->labelled];

		if (!g->labels)
			continue;
		places[n] = s->labelled;
		items[n++] = (struct labelled){g->address, g->goid, g->labels, 0};
	}
	if (!n)
		return NULL;
	err = labels_read(labels, items, n);
	for (size_t k = 0; !err && k < n; k++)
		s->items[places[k]].text = items[k].text;
	return err;
}

struct error *snapshot_read_labels(struct snapshot *s, struct labels *labels, uint64_t ns,
				   bool *ret_done)
{
	uint64_t began = clock_now();
	struct error *err = NULL;

	while (!err && s->labelled < s->count && clock_now() - began < ns)
		err = read_some_labels(s, labels);
	*ret_done = s->labelled == s->count;
	return err;
}

void snapshot_forgo_labels(struct snapshot *s, struct labels *labels)
{
	for (; s->labelled < s->count; s->labelled++)
		labels->dropped += s->items[s->labelled].labels != 0;
}

void snapshot_release(struct snapshot *s)
{
	free(s->items);
	*s = (struct snapshot){0};
}

/* ---- states before the first events ---- */

/* The state of its goroutine that an event leads from; false: it did not exist, or the event
 * implies none. */
static bool status_before(const struct trace_event *ev, enum trace_status *ret, bool *ret_known)
{
	*ret_known = true;
	switch (ev->kind) {
	case TRACE_START:
		*ret = TRACE_RUNNABLE;
		return true;
	case TRACE_BLOCK:
	case TRACE_YIELD:
	case TRACE_END:
	case TRACE_CORO_SWITCH:
	case TRACE_SYSCALL:
	case TRACE_ASSIST_BEGIN:
	case TRACE_ASSIST_END:
	case TRACE_LABEL:
	case TRACE_STW_BEGIN:
	case TRACE_STW_END:
	case TRACE_GC_BEGIN:
	case TRACE_GC_END:
		*ret = TRACE_RUNNING;
		return true;
	case TRACE_UNBLOCK:
		*ret = TRACE_WAITING;
		return true;
	case TRACE_SYSCALL_EXIT:
	case TRACE_SYSCALL_EXIT_NO_P:
	case TRACE_THREAD_LEAVE:
		*ret = TRACE_IN_SYSCALL;
		return true;
	case TRACE_CREATE:
	case TRACE_THREAD_ENTER:
		return false;
	default:
		*ret_known = false;
		return false;
	}
}

struct states {
	const struct snapshot *snapshot;
	struct map read;    /* goid -> its place in the snapshot + 1 */
	struct map seen;    /* goids whose first event has been seen */
	struct map changed; /* goids that were created, or whose labels were recorded, since */
	struct map threads; /* threads that run a goroutine */
	struct map ps;      /* that are held */
	struct trace_events *ret;
};

static struct error *must_check add(struct states *s, const struct trace_event *ev)
{
	return trace_events_add(s->ret, ev);
}

/* true, once, for each key. */
static bool claim(struct map *map, uint64_t key)
{
	uint64_t *place = map_at(map, key);

	if (!place || *place)
		return false;
	*place = 1;
	return true;
}

static struct error *must_check add_parked(struct states *s, const struct snapshot_goroutine *g)
{
	struct trace_event ev = {.ns = 1,
				 .m = TRACE_NO_M,
				 .g = g->goid,
				 .p = TRACE_NO_P,
				 .arg = g->waited_ns,
				 .stack = g->stack,
				 .text = g->reason,
				 .kind = TRACE_PARKED};

	return add(s, &ev);
}

/* A running goroutine without a P is on its way into a system call, after its P was given away,
 * or out of one (from Go 1.26 on). The trace has no such state. */
static struct error *must_check add_state(struct states *s, const struct snapshot_goroutine *g)
{
	bool on_thread = g->status == TRACE_RUNNING || g->status == TRACE_IN_SYSCALL;
	bool runs = g->status == TRACE_RUNNING && g->p != TRACE_NO_P;
	struct trace_event ev = {.ns = 1, .m = g->m, .g = g->goid, .p = g->p};
	struct error *err = NULL;

	if (on_thread && (g->m == TRACE_NO_M || !claim(&s->threads, g->m)))
		return NULL;
	if (on_thread && g->p != TRACE_NO_P && claim(&s->ps, g->p)) {
		ev.kind = TRACE_P_STATUS;
		ev.arg = runs ? PROC_RUNNING : PROC_IN_SYSCALL;
		ev.g = 0;
		err = add(s, &ev);
	} else if (runs) {
		return NULL;
	}
	ev.kind = TRACE_G_STATUS;
	ev.g = g->goid;
	ev.arg = on_thread && !runs ? TRACE_IN_SYSCALL : g->status;
	ev.arg2 = g->start_pc;
	ev.stack = g->stack;
	if (!err)
		err = add(s, &ev);
	return err || !g->stack ? err : add_parked(s, g);
}

/* Times of events are those of another clock, by as much. */
#define MARGIN_NS 100000

/* A stack that was read before the goroutine's first event is that of the state before it. */
static void take_read(struct snapshot_goroutine *g, const struct snapshot_goroutine *read,
		      uint64_t event_ns)
{
	g->start_pc = read->start_pc;
	if (!read->stood_ns || read->stood_ns + MARGIN_NS > event_ns || read->status != g->status)
		return;
	g->stack = read->stack;
	g->reason = read->reason;
	g->waited_ns = read->waited_ns;
}

/* The state that the first event of a goroutine implies. */
static struct error *must_check add_first_state(struct states *s, const struct trace_event *ev,
						uint64_t goid, bool existed,
						enum trace_status status)
{
	const uint64_t *read = map_find(&s->read, goid);
	struct snapshot_goroutine g = {.goid = goid, .m = ev->m, .p = ev->p, .status = status};

	if (!goid || !claim(&s->seen, goid) || !existed)
		return NULL;
	if (read)
		take_read(&g, &s->snapshot->items[*read - 1], ev->ns);
	return add_state(s, &g);
}

static struct error *must_check add_first_states(struct states *s, const struct trace_events *first)
{
	struct error *err = NULL;

	for (size_t i = 0; !err && i < first->count; i++) {
		const struct trace_event *ev = &first->items[i];
		enum trace_status status = TRACE_WAITING;
		bool known, existed = status_before(ev, &status, &known);

		if (known)
			err = add_first_state(s, ev, ev->g, existed, status);
		if (!err && ev->kind == TRACE_CORO_SWITCH)
			err = add_first_state(s, ev, ev->arg, true, TRACE_WAITING);
	}
	return err;
}

/* Leaves out goroutines whose labels changed while they were read: either set could be right. */
static struct error *must_check add_labels(struct states *s, const struct trace_events *first)
{
	struct error *err = NULL;

	for (size_t i = 0; i < first->count; i++) {
		const struct trace_event *ev = &first->items[i];

		if (ev->kind == TRACE_LABELS || ev->kind == TRACE_CREATE)
			claim(&s->changed, ev->g);
	}
	for (size_t i = 0; !err && i < s->snapshot->count; i++) {
		const struct snapshot_goroutine *g = &s->snapshot->items[i];
		struct trace_event ev = {.ns = 1,
					 .m = TRACE_NO_M,
					 .p = TRACE_NO_P,
					 .g = g->goid,
					 .kind = TRACE_LABELS,
					 .arg = TRACE_LABELS_BY_ANOTHER,
					 .text = g->text};

		if (g->text && claim(&s->changed, g->goid))
			err = add(s, &ev);
	}
	return err;
}

static struct error *must_check add_all_read(struct states *s)
{
	struct error *err = NULL;

	for (size_t i = 0; !err && i < s->snapshot->count; i++)
		if (!map_find(&s->seen, s->snapshot->items[i].goid))
			err = add_state(s, &s->snapshot->items[i]);
	return err;
}

struct error *snapshot_events(const struct snapshot *snapshot, const struct trace_events *first,
			      struct trace_events *ret)
{
	struct states s = {.snapshot = snapshot, .ret = ret};
	struct error *err = NULL;

	for (size_t i = 0; !err && i < snapshot->count; i++) {
		uint64_t *place = map_at(&s.read, snapshot->items[i].goid);

		if (!place)
			err = &error_no_memory;
		else
			*place = i + 1;
	}
	if (!err)
		err = add_first_states(&s, first);
	if (!err)
		err = add_all_read(&s);
	if (!err)
		err = add_labels(&s, first);
	map_release(&s.read);
	map_release(&s.seen);
	map_release(&s.changed);
	map_release(&s.threads);
	map_release(&s.ps);
	return err;
}
