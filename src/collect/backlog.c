#include "collect/backlog.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "collect/spill.h"

#define PAGE_BYTES 4096ul
#define STRIDE ((sizeof(struct block) + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1))
/* Blocks that stay resident when they are unused: 16 MB. */
#define RESIDENT_BLOCKS 256
/* That are given back at once: it takes 0.1 ms. */
#define TRIM_BLOCKS 16

/* Above this share of memory in use, new records go to the file. */
#define KEPT_SHARE 0.5
/* Collections that wait at once, with a file. */
#define MOST_WAITING (1u << 16)

/* Passes blocks from one thread to another, in order. It is never full: it has room for all blocks.
 */
struct queue {
	void **items;
	size_t mask;
	_Atomic size_t put;
	_Atomic size_t taken;
};

/* A collection that waits. */
struct waiting {
	struct block *first;
	uint64_t at; /* in the file */
	_Atomic enum { IN_MEMORY, ON_ITS_WAY, IN_FILE } place;
};

/* Blocks of the thread that fills, the last one on top. */
struct free_list {
	struct block **items;
	size_t count;
};

struct backlog {
	uint8_t *memory;
	size_t blocks;
	struct free_list resident; /* in memory */
	struct free_list released; /* not used so far, or given back */
	struct waiting *waiting;
	struct queue filled; /* of these */
	struct queue freed;
	_Atomic size_t in_use;
	_Atomic uint64_t bytes;    /* that wait */
	_Atomic uint64_t taken_ns; /* when the last one that was taken was collected */
	atomic_bool awaited;
	int wake; /* for the taking thread */
	/* The file, and the thread that writes it. */
	struct spill spill;
	struct queue leaving;
	struct queue left; /* blocks */
	pthread_t writer;
	bool writes;
	atomic_bool quit;
	int wake_writer;
};

static bool make_queue(struct queue *h, size_t count)
{
	size_t room = 1;

	while (room < count)
		room *= 2;
	h->mask = room - 1;
	h->items = calloc(room, sizeof(h->items[0]));
	return h->items;
}

static void queue_push(struct queue *h, void *item)
{
	size_t put = atomic_load_explicit(&h->put, memory_order_relaxed);

	h->items[put & h->mask] = item;
	atomic_store_explicit(&h->put, put + 1, memory_order_release);
}

static size_t queue_count(const struct queue *h)
{
	size_t taken = atomic_load(&h->taken);

	return atomic_load(&h->put) - taken;
}

/* NULL: the queue is empty. */
static void *queue_peek(struct queue *h)
{
	size_t taken = atomic_load_explicit(&h->taken, memory_order_relaxed);

	if (taken == atomic_load_explicit(&h->put, memory_order_acquire))
		return NULL;
	return h->items[taken & h->mask];
}

static void *queue_pop(struct queue *h)
{
	void *item = queue_peek(h);

	if (item)
		atomic_fetch_add_explicit(&h->taken, 1, memory_order_release);
	return item;
}

static bool make_free_list(struct free_list *p, size_t blocks)
{
	p->items = calloc(blocks, sizeof(p->items[0]));
	return p->items;
}

static bool make_waiting(struct backlog *b, size_t count)
{
	free(b->filled.items);
	free(b->waiting);
	b->waiting = NULL;
	if (!make_queue(&b->filled, count))
		return false;
	b->waiting = calloc(b->filled.mask + 1, sizeof(b->waiting[0]));
	return b->waiting;
}

struct error *backlog_create(size_t blocks, struct backlog **ret)
{
	_cleanup_backlog_ struct backlog *b = calloc(1, sizeof(*b));
	void *memory;

	if (!b)
		return &error_no_memory;
	spill_init(&b->spill, -1, 0);
	b->wake_writer = -1;
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
	if (!make_free_list(&b->resident, blocks) || !make_free_list(&b->released, blocks) ||
	    !make_waiting(b, blocks) || !make_queue(&b->freed, blocks))
		return &error_no_memory;
	for (size_t i = blocks; i-- > 0;)
		b->released.items[b->released.count++] = (struct block *)(b->memory + i * STRIDE);
	*ret = take_ptr(b);
	return NULL;
}

static void stop_writer(struct backlog *b)
{
	if (!b->writes)
		return;
	atomic_store(&b->quit, true);
	eventfd_write(b->wake_writer, 1);
	pthread_join(b->writer, NULL);
}

void backlog_destroy(struct backlog *b)
{
	if (!b)
		return;
	stop_writer(b);
	if (b->memory)
		munmap(b->memory, b->blocks * STRIDE);
	if (b->wake >= 0)
		close(b->wake);
	if (b->wake_writer >= 0)
		close(b->wake_writer);
	free(b->resident.items);
	free(b->released.items);
	free(b->waiting);
	free(b->filled.items);
	free(b->freed.items);
	free(b->leaving.items);
	free(b->left.items);
	free(b);
}

double backlog_fill(const struct backlog *b)
{
	double memory = (double)atomic_load(&b->in_use) / (double)b->blocks, file;

	if (!b->writes || backlog_file_failed(b))
		return memory;
	/* Blocks that fit into the file do not count. */
	memory = (memory - KEPT_SHARE) / (1 - KEPT_SHARE);
	file = spill_fill(&b->spill);
	return memory > file ? memory : file;
}

uint64_t backlog_bytes(const struct backlog *b)
{
	return atomic_load(&b->bytes);
}

uint64_t backlog_age(const struct backlog *b)
{
	return queue_count(&b->filled) ? clock_now() - atomic_load(&b->taken_ns) : 0;
}

int backlog_file_failed(const struct backlog *b)
{
	return atomic_load(&b->spill.failed);
}

/* ---- the thread that writes the file ---- */

static void release_to(struct backlog *b, struct queue *h, struct block *block)
{
	atomic_fetch_sub(&b->in_use, 1);
	queue_push(h, block);
}

static void write_one(struct backlog *b, struct waiting *w)
{
	struct block *first = w->first;
	bool written = spill_write(&b->spill, first, &w->at);

	atomic_store(&w->place, written ? IN_FILE : IN_MEMORY);
	for (struct block *block = first, *next; written && block; block = next) {
		next = block->next;
		release_to(b, &b->left, block);
	}
	eventfd_write(b->wake, 1);
}

static void *write_all(void *arg)
{
	struct backlog *b = arg;
	struct waiting *w;
	eventfd_t count;

	while (!atomic_load(&b->quit)) {
		while ((w = queue_pop(&b->leaving)))
			write_one(b, w);
		eventfd_read(b->wake_writer, &count);
	}
	return NULL;
}

struct error *backlog_use_file(struct backlog *b, int file, uint64_t most)
{
	sigset_t all, mask;
	int err;

	spill_init(&b->spill, file, most);
	if (!b->spill.most)
		return NULL;
	b->wake_writer = eventfd(0, EFD_CLOEXEC);
	if (b->wake_writer < 0)
		return error_errno(ERROR_FAILED, errno, "cannot wait for events");
	if (!make_waiting(b, b->blocks + MOST_WAITING) || !make_queue(&b->leaving, b->blocks) ||
	    !make_queue(&b->left, b->blocks))
		return &error_no_memory;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &mask);
	err = pthread_create(&b->writer, NULL, write_all, b);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	if (err)
		return error_errno(ERROR_FAILED, err, "cannot start a thread");
	b->writes = true;
	return NULL;
}

/* ---- filling ---- */

static void take_freed(struct backlog *b)
{
	struct block *block;

	while ((block = queue_pop(&b->freed)))
		b->resident.items[b->resident.count++] = block;
	while (b->writes && (block = queue_pop(&b->left)))
		b->resident.items[b->resident.count++] = block;
}

size_t backlog_free(struct backlog *b)
{
	take_freed(b);
	return b->resident.count + b->released.count;
}

struct block *backlog_get(struct backlog *b)
{
	struct free_list *list;
	struct block *block;

	if (!backlog_free(b))
		return NULL;
	list = b->resident.count ? &b->resident : &b->released;
	block = list->items[--list->count];
	block->next = NULL;
	block->piece_count = block->used = block->left = 0;
	block->in_heap = false;
	atomic_fetch_add(&b->in_use, 1);
	return block;
}

bool backlog_is_awaited(const struct backlog *b)
{
	return atomic_load(&b->awaited);
}

/* Those in memory always have room among those that wait. */
static bool goes_to_file(const struct backlog *b)
{
	return b->writes && (double)atomic_load(&b->in_use) > KEPT_SHARE * (double)b->blocks &&
	       queue_count(&b->filled) < MOST_WAITING && !backlog_file_failed(b);
}

static uint64_t bytes_in(const struct block *first)
{
	uint64_t bytes = 0;

	for (; first; first = first->next)
		bytes += first->used;
	return bytes;
}

void backlog_put(struct backlog *b, struct block *first)
{
	struct waiting *w = &b->waiting[atomic_load(&b->filled.put) & b->filled.mask];
	bool leaves = goes_to_file(b);

	atomic_fetch_add(&b->bytes, bytes_in(first));
	w->first = first;
	atomic_store(&w->place, leaves ? ON_ITS_WAY : IN_MEMORY);
	queue_push(&b->filled, w);
	if (leaves)
		queue_push(&b->leaving, w);
	eventfd_write(leaves ? b->wake_writer : b->wake, 1);
}

void backlog_trim(struct backlog *b)
{
	take_freed(b);
	if (queue_count(&b->filled))
		return;
	for (int i = 0; i < TRIM_BLOCKS && b->resident.count > RESIDENT_BLOCKS; i++) {
		struct block *block = b->resident.items[--b->resident.count];

		madvise(block, STRIDE, MADV_DONTNEED);
		b->released.items[b->released.count++] = block;
	}
}

/* ---- taking ---- */

/* NULL: none is ready. */
static struct waiting *oldest(struct backlog *b)
{
	struct waiting *w = queue_peek(&b->filled);

	return w && atomic_load(&w->place) != ON_ITS_WAY ? w : NULL;
}

void backlog_wait(struct backlog *b, uint64_t ns)
{
	struct timespec time = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
	struct pollfd fd = {.fd = b->wake, .events = POLLIN};
	eventfd_t count;

	if (oldest(b))
		return;
	atomic_store(&b->awaited, !queue_count(&b->filled));
	if (ppoll(&fd, 1, &time, NULL) > 0)
		eventfd_read(b->wake, &count);
}

struct error *backlog_take(struct backlog *b, struct block **ret)
{
	struct waiting *w = oldest(b);
	struct error *err = NULL;

	*ret = NULL;
	if (!w)
		return NULL;
	if (atomic_load(&w->place) == IN_FILE)
		err = spill_read(&b->spill, w->at, ret);
	else
		*ret = w->first;
	queue_pop(&b->filled);
	atomic_store(&b->awaited, false);
	if (err)
		return err;
	atomic_fetch_sub(&b->bytes, bytes_in(*ret));
	atomic_store(&b->taken_ns, (*ret)->about.ns);
	return NULL;
}

void backlog_release(struct backlog *b, struct block *block)
{
	if (block->in_heap)
		free(block);
	else
		release_to(b, &b->freed, block);
}
