/*
 * The heap profile is published once a collection: sampled allocations and frees are counted in
 * future[cycle + 2] and future[cycle + 1] of a bucket's record, and the runtime adds future[cycle]
 * to `active`, bucket by bucket, holding a lock. What it shows is active + future[cycle]
 * (memProfileInternal): the same before and after it adds. Until the first collection is published
 * that is 0 everywhere, and it shows all of the record.
 *
 * Nobody can hold that lock from outside. So all records are read twice, A and B, and between A and
 * B the lock was seen free once: no publication spans that instant. One that ended before it began
 * before B, so what it changed behind A's back is different in A and B; likewise one that began
 * after it. If the cycle and all that a publication writes are the same in A and B, A is what the
 * runtime would have shown.
 *
 * A record of blocking or of a mutex has two words that the runtime changes one after the other,
 * under a lock: it is read until two looks are the same.
 */
#include "memory/runtime_buckets.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "base/cancel.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/map.h"
#include "golayout/view.h"

#define MOST_BUCKETS (1u << 22)
#define MOST_DEPTH 1026 /* runtime.maxProfStackDepth, and two */
#define MOST_PCS (64u << 20)
#define WINDOW (64u << 10) /* the list leads mostly downwards through chunks of 256 KB */
#define PAGE 4096u
#define HEADER_LIMIT 256u

#define FUTURES 3
#define MOST_WORDS 16 /* of a record */
/* Of memRecordCycle; the last two up to Go 1.26. */
enum { ALLOCS, FREES, ALLOC_BYTES, FREE_BYTES };

#define PATIENCE_NS 5000000000ull
#define LOCK_LOOKS 4096
#define RECORD_LOOKS 100

/* spinbit and futex locks have this bit set while they are held (lock_spinbit.go, lock_futex.go);
 * a futex lock with sleepers is 2. */
#define LOCK_HELD 3u

struct record {
	uint64_t words[MOST_WORDS];
};

struct reading {
	struct target *t;
	const struct golayout *lay;
	const struct heap_variables *v;
	const struct buckets_wanted *wanted;
	struct runtime_buckets b;
	size_t header;       /* bytes of a bucket before its stack */
	size_t cycle_words;  /* of memRecordCycle */
	size_t record_words; /* of a record */
	uint64_t memory;     /* of the target: its buckets take no more */
	struct map seen;     /* addresses of buckets */
	uint64_t window_start;
	size_t window_size;
	uint8_t *window;
	struct record *a, *again;
	struct target_range *ranges;
	bool *ok;
	uint32_t cycle;
};

static void reading_release(struct reading *r)
{
	runtime_buckets_release(&r->b);
	map_release(&r->seen);
	free(r->window);
	free(r->a);
	free(r->again);
	free(r->ranges);
	free(r->ok);
}

void runtime_buckets_release(struct runtime_buckets *b)
{
	free(b->items);
	free(b->pcs);
	*b = (struct runtime_buckets){0};
}

static struct error *must_check corrupt(const char *what, uint64_t value)
{
	return error_format(
		ERROR_CORRUPT,
		"the target's own profile is corrupt: %s (0x%lx); take a core file and report this",
		what, value);
}

/* The bytes at an address, from the window or read around it. */
static struct error *must_check look(struct reading *r, uint64_t address, size_t size,
				     const uint8_t **ret)
{
	uint64_t end = (address + size + PAGE - 1) & ~(uint64_t)(PAGE - 1);
	struct error *err;

	if (address + size < address || end < WINDOW)
		return &error_fault;
	if (address < r->window_start || address + size > r->window_start + r->window_size) {
		r->window_start = end - WINDOW;
		r->window_size = WINDOW;
		if (error_dropped(target_read(r->t, r->window_start, r->window, WINDOW))) {
			r->window_start = address;
			r->window_size = size;
			err = target_read(r->t, address, r->window, size);
			if (err) {
				r->window_size = 0;
				return err;
			}
		}
	}
	*ret = r->window + (address - r->window_start);
	return NULL;
}

static struct error *must_check add_bucket(struct reading *r, uint64_t address, uint64_t *ret_next)
{
	struct bucket_view view = {.n = &r->lay->n};
	struct runtime_buckets *b = &r->b;
	uint64_t depth;
	struct error *err = look(r, address, r->header, &view.bytes);
	const uint8_t *pcs;

	if (err)
		return err->code == ERROR_FAULT ? corrupt("it leads to unreadable memory", address)
						: err;
	depth = bucket_view_nstk(view);
	if (bucket_view_typ(view) != r->wanted->kind)
		return corrupt("a bucket of another kind", address);
	if (depth > MOST_DEPTH || b->pc_count + depth > MOST_PCS)
		return corrupt("the length of a stack", depth);
	if (!array_reserve(&b->items, &b->capacity, b->count + 1) ||
	    !array_reserve(&b->pcs, &b->pc_capacity, b->pc_count + depth))
		return &error_no_memory;
	b->items[b->count++] = (struct runtime_bucket){
		.address = address,
		.object_size = bucket_view_size(view),
		.first = b->pc_count,
		.depth = depth,
	};
	*ret_next = bucket_view_allnext(view);
	err = look(r, address + r->header, depth * sizeof(*b->pcs), &pcs);
	if (err)
		return err->code == ERROR_FAULT ? corrupt("a stack in unreadable memory", address)
						: err;
	if (depth)
		memcpy(b->pcs + b->pc_count, pcs, depth * sizeof(*b->pcs));
	b->pc_count += depth;
	return NULL;
}

static struct error *must_check walk(struct reading *r, uint64_t list)
{
	uint64_t address, *seen;
	struct error *err = target_read_u64(r->t, list, &address);

	while (!err && address) {
		seen = map_at(&r->seen, address);
		if (!seen)
			return &error_no_memory;
		if (*seen)
			return corrupt("its list leads in a circle", address);
		*seen = 1;
		if (r->b.count >= MOST_BUCKETS ||
		    r->b.count * (r->header + r->record_words * sizeof(uint64_t)) > r->memory)
			return corrupt("more buckets than fit its memory", r->b.count);
		err = add_bucket(r, address, &address);
		if (!err && !(r->b.count & 1023))
			err = cancel_check(r->wanted->cancel);
	}
	return err;
}

static struct error *must_check make_room(struct reading *r)
{
	size_t n = r->b.count + 1;

	r->a = calloc(n, sizeof(*r->a));
	r->again = calloc(n, sizeof(*r->again));
	r->ranges = calloc(n, sizeof(*r->ranges));
	r->ok = calloc(n, sizeof(*r->ok));
	return r->a && r->again && r->ranges && r->ok ? NULL : &error_no_memory;
}

static uint64_t record_address(const struct reading *r, const struct runtime_bucket *b)
{
	return b->address + r->header + b->depth * sizeof(uint64_t);
}

static struct error *must_check read_records(struct reading *r, struct record *to)
{
	struct error *err;

	for (size_t i = 0; i < r->b.count; i++)
		r->ranges[i] = (struct target_range){record_address(r, &r->b.items[i]),
						     r->record_words * sizeof(uint64_t), &to[i]};
	err = target_read_each(r->t, r->ranges, r->b.count, r->ok);
	for (size_t i = 0; !err && i < r->b.count; i++)
		if (!r->ok[i])
			err = corrupt("counters in unreadable memory", r->ranges[i].address);
	return err;
}

/* ---- memory ---- */

static const uint64_t *cycle_of(const struct reading *r, const struct record *record, size_t i)
{
	return record->words + i * r->cycle_words;
}

/* The part of a record before future[0] is `active`. */
static const uint64_t *future(const struct reading *r, const struct record *record, uint32_t cycle)
{
	return cycle_of(r, record, 1 + cycle % FUTURES);
}

/* The number of the cycle is stored from bit 1 on; before Go 1.19 it is a word of its own. */
static struct error *must_check read_cycle(struct reading *r, uint32_t *ret)
{
	struct error *err = target_read_u32(r->t, r->v->cycle, ret);

	if (!err && r->lay->minor >= 19)
		*ret >>= 1;
	return err;
}

/* A thread that publishes is soon done, unless it has no CPU or the process is stopped. */
static struct error *must_check wait_until_free(struct reading *r, bool *ret_free)
{
	uint32_t lock = 0;

	*ret_free = false;
	for (size_t i = 0; i < LOCK_LOOKS && !*ret_free; i++) {
		struct error *err = target_read_u32(r->t, r->v->publish_lock, &lock);

		if (err)
			return err;
		*ret_free = !(lock & LOCK_HELD);
	}
	return NULL;
}

/* All that a publication writes is the same in both: `active`, future[cycle], and, as far as no
 * sweeping changes it, future[cycle + 1]. */
static bool same_published(const struct reading *r, const struct record *x, const struct record *y)
{
	size_t size = r->cycle_words * sizeof(uint64_t);

	return !memcmp(cycle_of(r, x, 0), cycle_of(r, y, 0), size) &&
	       !memcmp(future(r, x, r->cycle), future(r, y, r->cycle), size) &&
	       future(r, x, r->cycle + 1)[ALLOCS] == future(r, y, r->cycle + 1)[ALLOCS];
}

static bool are_same(const struct reading *r)
{
	for (size_t i = 0; i < r->b.count; i++)
		if (!same_published(r, &r->a[i], &r->again[i]))
			return false;
	return true;
}

static struct error *must_check look_twice(struct reading *r, bool *ret_done)
{
	uint32_t after;
	bool is_free;
	struct error *err = read_cycle(r, &r->cycle);

	*ret_done = false;
	if (!err)
		err = read_records(r, r->a);
	if (!err)
		err = wait_until_free(r, &is_free);
	if (err)
		return err;
	if (target_core(r->t)) {
		r->b.uncertain = is_free ? 0 : r->b.count;
		*ret_done = true;
		return NULL;
	}
	if (!is_free)
		return NULL;
	err = read_records(r, r->again);
	if (!err)
		err = read_cycle(r, &after);
	*ret_done = !err && after == r->cycle && are_same(r);
	return err;
}

static struct error *must_check read_memory(struct reading *r)
{
	const struct timespec pause = {.tv_nsec = 200000};
	uint64_t start = clock_now();
	struct error *err;
	bool done;

	for (;;) {
		err = look_twice(r, &done);
		if (!err && !done)
			err = cancel_check(r->wanted->cancel);
		if (err || done)
			return err;
		if (clock_now() - start > PATIENCE_NS)
			return error_format(
				ERROR_FAILED,
				"cannot read the heap profile: the program was publishing it at each read for 5 s; if it is stopped, resume it with kill -CONT, else try again");
		nanosleep(&pause, NULL);
	}
}

/* Sampled allocations that are not published yet may be seen between two of their words. */
static uint64_t bytes_of(const struct reading *r, const uint64_t *cycle, size_t bytes, size_t count,
			 uint64_t size)
{
	return r->cycle_words > bytes ? cycle[bytes] : cycle[count] * size;
}

static void add_cycle(const struct reading *r, const uint64_t *cycle, struct runtime_bucket *b)
{
	b->allocs += cycle[ALLOCS];
	b->frees += cycle[FREES];
	b->alloc_bytes += bytes_of(r, cycle, ALLOC_BYTES, ALLOCS, b->object_size);
	b->free_bytes += bytes_of(r, cycle, FREE_BYTES, FREES, b->object_size);
}

static void add_unpublished(const struct reading *r, const struct record *record,
			    struct runtime_bucket *b)
{
	for (uint32_t i = 1; i < FUTURES; i++) {
		const uint64_t *cycle = future(r, record, r->cycle + i);

		b->allocs += cycle[ALLOCS];
		b->frees += cycle[FREES];
		b->alloc_bytes += cycle[ALLOCS] * b->object_size;
		b->free_bytes += cycle[FREES] * b->object_size;
	}
}

static void take_memory(struct reading *r)
{
	bool is_published = false;

	for (size_t i = 0; i < r->b.count; i++) {
		struct runtime_bucket *b = &r->b.items[i];

		add_cycle(r, cycle_of(r, &r->a[i], 0), b);
		add_cycle(r, future(r, &r->a[i], r->cycle), b);
		is_published |= b->allocs || b->frees;
	}
	for (size_t i = 0; i < r->b.count && (!is_published || r->wanted->up_to_now); i++)
		add_unpublished(r, &r->a[i], &r->b.items[i]);
}

/* ---- blocking and mutexes ---- */

static struct error *must_check read_until_same(struct reading *r, size_t i)
{
	size_t size = r->record_words * sizeof(uint64_t);
	uint64_t address = record_address(r, &r->b.items[i]);
	struct error *err;

	for (size_t n = 0; n < RECORD_LOOKS; n++) {
		if (!memcmp(&r->a[i], &r->again[i], size))
			return NULL;
		r->a[i] = r->again[i];
		err = target_read(r->t, address, &r->again[i], size);
		if (err)
			return err;
	}
	r->b.uncertain++;
	return NULL;
}

static struct error *must_check read_blocking(struct reading *r)
{
	struct error *err = read_records(r, r->a);

	if (!err)
		err = read_records(r, r->again);
	for (size_t i = 0; !err && i < r->b.count; i++) {
		struct runtime_bucket *b = &r->b.items[i];

		err = read_until_same(r, i);
		memcpy(&b->count, &r->again[i].words[0], sizeof(b->count));
		memcpy(&b->cycles, &r->again[i].words[1], sizeof(b->cycles));
	}
	return err;
}

static struct error *must_check prepare(struct reading *r)
{
	const struct golayout_numbers *n = &r->lay->n;

	r->header = n->bucket_header;
	r->cycle_words = n->mem_cycle_bytes / sizeof(uint64_t);
	r->record_words = r->wanted->kind == BUCKET_MEMORY ? r->cycle_words * (1 + FUTURES) : 2;
	r->memory = target_memory(r->t);
	r->window = malloc(WINDOW);
	/* DWARF may have said anything. */
	if (r->header > HEADER_LIMIT || r->cycle_words < 2 || r->record_words > MOST_WORDS)
		return error_format(
			ERROR_UNSUPPORTED,
			"the DWARF of the program is wrong: a heap profile's bucket has "
			"%zu bytes, and a record %zu words; rebuild the program",
			r->header, r->record_words);
	return r->window ? NULL : &error_no_memory;
}

struct error *runtime_buckets_read(struct target *t, const struct golayout *lay,
				   const struct heap_variables *v,
				   const struct buckets_wanted *wanted, struct runtime_buckets *ret)
{
	const uint64_t lists[] = {[BUCKET_MEMORY] = v->mbuckets,
				  [BUCKET_BLOCK] = v->bbuckets,
				  [BUCKET_MUTEX] = v->xbuckets};
	__attribute__((cleanup(reading_release))) struct reading r = {.t = t,
								      .lay = lay,
								      .v = v,
								      .wanted = wanted};
	struct error *err = prepare(&r);

	if (!err)
		err = walk(&r, lists[wanted->kind]);
	if (!err)
		err = make_room(&r);
	if (!err)
		err = wanted->kind == BUCKET_MEMORY ? read_memory(&r) : read_blocking(&r);
	if (err)
		return err;
	if (wanted->kind == BUCKET_MEMORY)
		take_memory(&r);
	*ret = r.b;
	r.b = (struct runtime_buckets){0};
	return NULL;
}

struct error *runtime_bucket_stack(struct target *t, const struct golayout *lay, uint64_t address,
				   uint64_t *pcs, size_t most, size_t *ret_count)
{
	uint8_t head[HEADER_LIMIT];
	const struct bucket_view view = {&lay->n, head};
	size_t size = (size_t)lay->n.bucket_header, depth;
	struct error *err =
		size > HEADER_LIMIT ? &error_fault : target_read(t, address, head, size);

	*ret_count = 0;
	if (!err && bucket_view_typ(view) == BUCKET_MEMORY) {
		depth = bucket_view_nstk(view) < most ? bucket_view_nstk(view) : most;
		err = target_read(t, address + size, pcs, depth * sizeof(*pcs));
		*ret_count = err ? 0 : depth;
	}
	if (err && err->code != ERROR_FAULT)
		return err;
	error_destroy(err);
	return NULL;
}
