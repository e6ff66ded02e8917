/* The objects, each with its waiters, and the state that is read from its memory. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "waits/room.h"

/* sync.Mutex (internal/sync.Mutex from Go 1.24 on), in Go 1.17 to 1.27. */
enum { MUTEX_LOCKED = 1, MUTEX_STARVING = 4 };
/* sync.RWMutex: w, writerSem, readerSem, readerCount, readerWait. A writer subtracts this from
 * readerCount. */
enum { RWMUTEX_READERS = 16, RWMUTEX_READERS_LEFT = 20, RWMUTEX_SIZE = 24 };
#define RWMUTEX_MAX_READERS (1 << 30)
/* sync.Cond: the data word of L. */
#define COND_LOCK 8
#define READ_BYTES 64
#define CHUNK 1024

/* ---- grouping ---- */

static int compare_edges(const void *a, const void *b, void *arg)
{
	const struct wait_graph *w = arg;
	const struct wait_edge *x = &w->edges[*(const uint32_t *)a];
	const struct wait_edge *y = &w->edges[*(const uint32_t *)b];

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	if (x->kind == WAIT_OTHER && x->next != y->next)
		return x->next < y->next ? -1 : 1;
	if (x->goroutine != y->goroutine)
		return w->goroutines[x->goroutine].id < w->goroutines[y->goroutine].id ? -1 : 1;
	return *(const uint32_t *)a < *(const uint32_t *)b ? -1 : 1;
}

static bool same_object(const struct wait_edge *a, const struct wait_edge *b)
{
	return a->kind == b->kind && a->address == b->address &&
	       (a->kind != WAIT_OTHER || a->next == b->next);
}

/* The edges of goroutines as they are now. */
static size_t gather(struct wait_graph *w)
{
	size_t n = 0;

	for (size_t i = 0; i < w->count; i++)
		for (uint32_t k = 0; k < w->goroutines[i].edge_count; k++)
			w->waiters[n++] = w->goroutines[i].first_edge + k;
	return n;
}

static struct error *add_object(struct wait_graph *w, size_t first, size_t count)
{
	const struct wait_edge *edge = &w->edges[w->waiters[first]];
	const struct wait_goroutine *g = &w->goroutines[edge->goroutine];
	struct wait_object *o;

	if (!array_reserve(&w->objects, &w->object_capacity, w->object_count + 1))
		return &error_no_memory;
	o = &w->objects[w->object_count++];
	*o = (struct wait_object){.kind = edge->kind,
				  .address = edge->address,
				  .name = "",
				  .site = g->place,
				  .fd = -1,
				  .local = "",
				  .remote = "",
				  .waiters = w->waiters + first,
				  .waiter_count = count};
	if (o->kind == WAIT_OTHER)
		o->name = wait_state(w, g);
	return o->name ? NULL : &error_no_memory;
}

/* Within a kind, most waiters first. Otherwise the order by address is kept. */
static int compare_objects(const void *a, const void *b)
{
	const struct wait_object *x = a, *y = b;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->waiter_count != y->waiter_count)
		return x->waiter_count > y->waiter_count ? -1 : 1;
	return (x->address > y->address) - (x->address < y->address);
}

static struct error *make_objects(struct wait_graph *w)
{
	struct error *err = NULL;
	size_t count, first = 0;

	w->waiters = malloc((w->edge_count + 1) * sizeof(*w->waiters));
	if (!w->waiters)
		return &error_no_memory;
	count = gather(w);
	qsort_r(w->waiters, count, sizeof(*w->waiters), compare_edges, w);
	for (size_t i = 1; !err && i <= count; i++) {
		if (i < count &&
		    same_object(&w->edges[w->waiters[first]], &w->edges[w->waiters[i]]))
			continue;
		err = add_object(w, first, i - first);
		first = i;
	}
	if (err || !w->object_count)
		return err;
	qsort(w->objects, w->object_count, sizeof(*w->objects), compare_objects);
	for (size_t i = 0; i < w->object_count; i++)
		for (size_t k = 0; k < w->objects[i].waiter_count; k++)
			w->edges[w->objects[i].waiters[k]].object = i;
	return NULL;
}

/* ---- the state of objects ---- */

static size_t bytes_of(const struct wait_graph *w, enum wait_kind kind)
{
	switch (kind) {
	case WAIT_MUTEX:
		return 8;
	case WAIT_RWMUTEX:
		return RWMUTEX_SIZE;
	case WAIT_WAITGROUP:
	case WAIT_COND:
		return 16;
	case WAIT_CHANNEL:
		return golayout_hchan_bytes(&w->lay->n);
	case WAIT_NETWORK:
		return golayout_poll_bytes(&w->lay->n);
	case WAIT_TIMER:
		return golayout_timer_bytes(&w->lay->n);
	default:
		return 0;
	}
}

static int32_t word32(const uint8_t *bytes, size_t at)
{
	int32_t value;

	memcpy(&value, bytes + at, sizeof(value));
	return value;
}

static void take_rwmutex(struct wait_object *o, const uint8_t *bytes)
{
	int32_t state = word32(bytes, 0), readers = word32(bytes, RWMUTEX_READERS);
	int32_t left = word32(bytes, RWMUTEX_READERS_LEFT);

	o->writer = readers < 0;
	/* If a writer waits: the readers that it waits for. Later readers wait for the writer. */
	o->readers = readers < 0 ? left : readers;
	o->locked = state & MUTEX_LOCKED || readers;
	o->starving = state & MUTEX_STARVING;
}

/* The offset of the 64-bit state in a WaitGroup of Go 1.17 that is not aligned. */
static size_t waitgroup_state(const struct wait_graph *w, const struct wait_object *o)
{
	return w->lay->minor == 17 && o->address & 7 ? 4 : 0;
}

static void take_channel(const struct wait_graph *w, struct wait_object *o, const uint8_t *bytes)
{
	struct hchan_view v = {&w->lay->n, bytes};

	o->length = hchan_view_qcount(v);
	o->capacity = hchan_view_dataqsiz(v);
	o->closed = hchan_view_closed(v);
	o->is_timed = hchan_view_timer(v);
	o->queue[0] = hchan_view_recvq(v);
	o->queue[1] = hchan_view_sendq(v);
	o->known = o->length <= o->capacity;
}

static void take_bytes(const struct wait_graph *w, struct wait_object *o, const uint8_t *bytes)
{
	struct poll_view poll = {&w->lay->n, bytes};
	struct timer_view timer = {&w->lay->n, bytes};
	uint64_t fd;

	o->known = true;
	switch (o->kind) {
	case WAIT_MUTEX:
		o->locked = word32(bytes, 0) & MUTEX_LOCKED;
		o->starving = word32(bytes, 0) & MUTEX_STARVING;
		break;
	case WAIT_RWMUTEX:
		take_rwmutex(o, bytes);
		break;
	case WAIT_WAITGROUP:
		/* The counter is the upper half: sync/waitgroup.go. */
		o->counter = word32(bytes, waitgroup_state(w, o) + 4);
		break;
	case WAIT_COND:
		memcpy(&o->lock, bytes + COND_LOCK, sizeof(o->lock));
		break;
	case WAIT_CHANNEL:
		take_channel(w, o, bytes);
		break;
	case WAIT_NETWORK:
		fd = poll_view_fd(poll);
		o->fd = fd <= INT32_MAX ? (int64_t)fd : -1;
		break;
	case WAIT_TIMER:
		o->due = timer_view_when(timer);
		break;
	default:
		o->known = false;
	}
}

static struct error *read_chunk(struct wait_graph *w, size_t first, size_t count)
{
	_cleanup_free_ uint8_t *bytes = calloc(count, GOLAYOUT_WAIT_LIMIT);
	struct target_range ranges[CHUNK];
	uint32_t which[CHUNK];
	bool ok[CHUNK] = {false};
	struct error *err;
	size_t n = 0;

	if (!bytes)
		return &error_no_memory;
	for (size_t i = first; i < first + count; i++) {
		size_t size = w->objects[i].address ? bytes_of(w, w->objects[i].kind) : 0;

		if (!size || size > GOLAYOUT_WAIT_LIMIT)
			continue;
		ranges[n] = (struct target_range){w->objects[i].address, size,
						  bytes + n * GOLAYOUT_WAIT_LIMIT};
		which[n++] = i;
	}
	err = n ? target_read_each(w->t, ranges, n, ok) : NULL;
	for (size_t i = 0; !err && i < n; i++)
		if (ok[i])
			take_bytes(w, &w->objects[which[i]], bytes + i * GOLAYOUT_WAIT_LIMIT);
	return err;
}

/* ---- which side of a channel the cases of a select are on ---- */

static void take_sides(struct wait_graph *w, const struct wait_object *o, const struct map *sudogs)
{
	for (size_t side = 0; side < 2; side++) {
		uint64_t at = o->queue[side];

		/* If a hostile target made the list a ring, it ends at an edge whose side is known.
		 */
		for (size_t n = 0; at && n < o->waiter_count; n++) {
			const uint64_t *place = map_find(sudogs, at);
			struct wait_edge *edge = place ? &w->edges[*place] : NULL;

			if (!edge || edge->address != o->address ||
			    (edge->is_case && edge->side != WAIT_ANY))
				break;
			if (edge->is_case)
				edge->side = side ? WAIT_SEND : WAIT_RECEIVE;
			at = edge->next;
		}
	}
}

static struct error *find_sides(struct wait_graph *w)
{
	_cleanup_map_ struct map sudogs = {0};

	for (size_t i = 0; i < w->object_count; i++) {
		const struct wait_object *o = &w->objects[i];

		for (size_t k = 0; o->kind == WAIT_CHANNEL && k < o->waiter_count; k++) {
			uint64_t *place = map_at(&sudogs, w->edges[o->waiters[k]].sudog);

			if (!place)
				return &error_no_memory;
			*place = o->waiters[k];
		}
	}
	for (size_t i = 0; i < w->object_count; i++)
		if (w->objects[i].kind == WAIT_CHANNEL)
			take_sides(w, &w->objects[i], &sudogs);
	return NULL;
}

struct error *wait_graph_group(struct wait_graph *w)
{
	struct error *err = make_objects(w);

	for (size_t i = 0; !err && i < w->object_count; i += CHUNK)
		err = read_chunk(w, i, w->object_count - i < CHUNK ? w->object_count - i : CHUNK);
	return err ? err : find_sides(w);
}
