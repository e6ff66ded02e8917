#include "collect/backlog.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define PAGE_BYTES 4096ul
#define STRIDE ((sizeof(struct block) + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1))
/* Blocks that are kept although nobody needs them just now: 16 MB. */
#define SPARE_BLOCKS 256
/* That are given back at once: it takes 0.1 ms. */
#define TRIM_BLOCKS 16

/* From one thread to another, in order. Has room for all blocks, so it is never full. */
struct handover {
	struct block **items;
	size_t mask;
	_Atomic size_t put;
	_Atomic size_t taken;
};

/* Blocks of the thread that fills, the last one on top. */
struct pile {
	struct block **items;
	size_t count;
};

struct backlog {
	uint8_t *memory;
	size_t blocks;
	struct pile warm; /* in memory */
	struct pile cold; /* not used so far, or given back */
	struct handover filled;
	struct handover freed;
	_Atomic size_t in_use;
	_Atomic uint64_t taken_ns; /* when the last one that was taken was collected */
	atomic_bool awaited;
	int wake; /* for who takes */
};

static bool make_handover(struct handover *h, size_t blocks)
{
	size_t room = 1;

	while (room < blocks)
		room *= 2;
	h->mask = room - 1;
	h->items = calloc(room, sizeof(h->items[0]));
	return h->items;
}

static void hand_over(struct handover *h, struct block *block)
{
	size_t put = atomic_load_explicit(&h->put, memory_order_relaxed);

	h->items[put & h->mask] = block;
	atomic_store_explicit(&h->put, put + 1, memory_order_release);
}

static struct block *take_over(struct handover *h)
{
	size_t taken = atomic_load_explicit(&h->taken, memory_order_relaxed);
	struct block *block;

	if (taken == atomic_load_explicit(&h->put, memory_order_acquire))
		return NULL;
	block = h->items[taken & h->mask];
	atomic_store_explicit(&h->taken, taken + 1, memory_order_release);
	return block;
}

static bool is_empty(const struct handover *h)
{
	return atomic_load(&h->taken) == atomic_load(&h->put);
}

static bool make_pile(struct pile *p, size_t blocks)
{
	p->items = calloc(blocks, sizeof(p->items[0]));
	return p->items;
}

struct error *backlog_create(size_t blocks, struct backlog **ret)
{
	_cleanup_backlog_ struct backlog *b = calloc(1, sizeof(*b));
	void *memory;

	if (!b)
		return &error_no_memory;
	b->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (b->wake < 0)
		return error_errno(ERROR_FAILED, errno, "cannot wait for events");
	memory = mmap(NULL, blocks * STRIDE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return &error_no_memory;
	b->memory = memory;
	b->blocks = blocks;
	b->taken_ns = clock_now();
	if (!make_pile(&b->warm, blocks) || !make_pile(&b->cold, blocks) ||
	    !make_handover(&b->filled, blocks) || !make_handover(&b->freed, blocks))
		return &error_no_memory;
	for (size_t i = blocks; i-- > 0;)
		b->cold.items[b->cold.count++] = (struct block *)(b->memory + i * STRIDE);
	*ret = take_ptr(b);
	return NULL;
}

void backlog_destroy(struct backlog *b)
{
	if (!b)
		return;
	if (b->memory)
		munmap(b->memory, b->blocks * STRIDE);
	if (b->wake >= 0)
		close(b->wake);
	free(b->warm.items);
	free(b->cold.items);
	free(b->filled.items);
	free(b->freed.items);
	free(b);
}

double backlog_fill(const struct backlog *b)
{
	return (double)atomic_load(&b->in_use) / (double)b->blocks;
}

uint64_t backlog_age(const struct backlog *b)
{
	return is_empty(&b->filled) ? 0 : clock_now() - atomic_load(&b->taken_ns);
}

/* ---- filling ---- */

static void take_freed(struct backlog *b)
{
	struct block *block;

	while ((block = take_over(&b->freed)))
		b->warm.items[b->warm.count++] = block;
}

size_t backlog_free(struct backlog *b)
{
	take_freed(b);
	return b->warm.count + b->cold.count;
}

struct block *backlog_get(struct backlog *b)
{
	struct pile *pile;
	struct block *block;

	if (!backlog_free(b))
		return NULL;
	pile = b->warm.count ? &b->warm : &b->cold;
	block = pile->items[--pile->count];
	block->next = NULL;
	block->piece_count = block->used = block->left = 0;
	atomic_fetch_add(&b->in_use, 1);
	return block;
}

bool backlog_is_awaited(const struct backlog *b)
{
	return atomic_load(&b->awaited);
}

void backlog_put(struct backlog *b, struct block *first)
{
	hand_over(&b->filled, first);
	eventfd_write(b->wake, 1);
}

void backlog_trim(struct backlog *b)
{
	take_freed(b);
	if (!is_empty(&b->filled))
		return;
	for (int i = 0; i < TRIM_BLOCKS && b->warm.count > SPARE_BLOCKS; i++) {
		struct block *block = b->warm.items[--b->warm.count];

		madvise(block, STRIDE, MADV_DONTNEED);
		b->cold.items[b->cold.count++] = block;
	}
}

/* ---- taking ---- */

void backlog_wait(struct backlog *b, uint64_t ns)
{
	struct timespec time = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
	struct pollfd fd = {.fd = b->wake, .events = POLLIN};
	eventfd_t count;

	if (!is_empty(&b->filled))
		return;
	atomic_store(&b->awaited, true);
	if (ppoll(&fd, 1, &time, NULL) > 0)
		eventfd_read(b->wake, &count);
}

struct block *backlog_take(struct backlog *b)
{
	struct block *first = take_over(&b->filled);

	if (!first)
		return NULL;
	atomic_store(&b->awaited, false);
	atomic_store(&b->taken_ns, first->about.ns);
	return first;
}

void backlog_release(struct backlog *b, struct block *block)
{
	atomic_fetch_sub(&b->in_use, 1);
	hand_over(&b->freed, block);
}
