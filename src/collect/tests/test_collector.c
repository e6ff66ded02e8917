/* The collector's thread between one that writes rings, as the agent does, and one that decodes. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/permit.h"
#include "base/strbuf.h"
#include "base/unit_test.h"
#include "collect/collector.h"
#include "collect/drain.h"
#include "tests/made_runtime.h"

enum { SLOTS = 2, RING = 4 * AGENT_CHUNK_BYTES, BLOCKS = 64, RECORDS_OF_SLOT = 200000 };
enum { RECORD_BYTES = 1 + 2 * UVARINT_MAX, PAUSE_EACH = 50000, PAUSE_US = 60000 };

/* Stands in for the room `inject`: shared memory without a process. */
struct injection {
	struct agent_shared *shared;
	struct agent_shared layout;
};

struct agent_shared *inject_shared(const struct injection *in)
{
	return in->shared;
}

const struct agent_shared *inject_layout(const struct injection *in)
{
	return &in->layout;
}

void inject_read(const struct injection *in, uint64_t offset, void *ret, size_t size)
{
	memcpy(ret, (const uint8_t *)in->shared + offset, size);
}

void inject_populate(const struct injection *in, uint64_t offset, uint64_t size)
{
}

struct error *inject_update_readable(struct injection *in)
{
	return NULL;
}

bool inject_beat(struct injection *in)
{
	return false;
}

static const atomic_int never;

struct writer {
	struct agent_slot *slot;
	uint8_t *ring;
	atomic_int *ended; /* writers */
	pthread_t thread;
};

static void put(struct writer *w, uint64_t *at, const void *bytes, size_t n)
{
	while (*at + n - __atomic_load_n(&w->slot->read, __ATOMIC_ACQUIRE) > RING)
		sched_yield();
	memcpy(w->ring + *at % RING, bytes, n);
	*at += n;
}

/* A record with the time since the one before it, as the agent writes it; *tick: the time of that,
 * and then of this. */
static size_t make_record(uint8_t record[RECORD_BYTES], uint64_t *tick)
{
	uint64_t now = ticks_now(), since = now > *tick ? now - *tick : 0;
	size_t n = 1;

	record[0] = RECORD_START;
	n += uvarint_put(record + n, since);
	record[n++] = 1;
	*tick += since;
	return n;
}

/* A chunk, then records up to its end. Now and then the thread loses its CPU between two records:
 * meanwhile the collector goes past the time of the first. */
static void *write_records(void *arg)
{
	struct writer *w = arg;
	uint64_t at = 0, tick = 0;

	for (uint32_t i = 0; i < RECORDS_OF_SLOT; i++) {
		uint64_t left = AGENT_CHUNK_BYTES - at % AGENT_CHUNK_BYTES;
		uint8_t record[RECORD_BYTES];
		size_t n;

		if (at % AGENT_CHUNK_BYTES && left < RECORD_BYTES + 1) {
			put(w, &at, &(uint8_t){RECORD_NONE}, 1);
			at += left - 1;
		}
		if (i % PAUSE_EACH == PAUSE_EACH - 1)
			usleep(PAUSE_US);
		__atomic_store_n(&w->slot->busy, 1, __ATOMIC_SEQ_CST);
		if (!(at % AGENT_CHUNK_BYTES)) {
			struct agent_chunk chunk = {.tick = ticks_now(), .thread = 1};

			tick = chunk.tick;
			put(w, &at, &chunk, sizeof(chunk));
		}
		n = make_record(record, &tick);
		__atomic_store_n(&w->slot->tick, tick, __ATOMIC_RELAXED);
		put(w, &at, record, n);
		__atomic_store_n(&w->slot->write, at, __ATOMIC_RELEASE);
		__atomic_store_n(&w->slot->busy, 0, __ATOMIC_RELEASE);
	}
	atomic_fetch_add(w->ended, 1);
	return NULL;
}

static void make_memory(struct injection *in)
{
	struct agent_shared *l = &in->layout;

	l->slots = SLOTS;
	l->ring_bytes = RING;
	l->slots_offset = 4096;
	l->rings_offset = l->slots_offset + SLOTS * AGENT_SLOT_BYTES;
	l->size = l->rings_offset + SLOTS * RING;
	in->shared =
		mmap(NULL, l->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(in->shared, MAP_FAILED);
}

static void start_writers(struct injection *in, struct writer *writers, atomic_int *ended)
{
	uint8_t *base = (uint8_t *)in->shared;

	for (int i = 0; i < SLOTS; i++) {
		writers[i] = (struct writer){
			.slot = (void *)(base + in->layout.slots_offset + i * AGENT_SLOT_BYTES),
			.ring = base + in->layout.rings_offset + i * RING,
			.ended = ended,
		};
		assert_int_equal(pthread_create(&writers[i].thread, NULL, write_records,
						&writers[i]),
				 0);
	}
}

/* All records that come, until the last collection. */
static uint64_t count_records(struct collector *c, struct backlog *b, struct drain *d,
			      atomic_int *ended)
{
	uint64_t count = 0, last_tick = 0;
	const struct drain_record *r;
	bool last = false, finished = false;
	struct block *first;

	while (!last) {
		collector_lower_priority(c);
		backlog_wait(b, 10000000);
		assert_null(backlog_take(b, &first));
		if (!first)
			continue;
		last = first->about.last;
		drain_add(d, first);
		while ((r = drain_next(d))) {
			assert_true(r->tick >= last_tick);
			last_tick = r->tick;
			count++;
		}
		if (finished || atomic_load(ended) < SLOTS)
			continue;
		finished = true;
		collector_finish(c);
	}
	return count;
}

static void records_arrive_once_and_in_order(void **state)
{
	static struct made_runtime runtime;
	struct injection in = {0};
	struct writer writers[SLOTS];
	atomic_int ended = 0;
	struct counters counters = {0};
	struct ticks ticks = {.count = 0};
	struct tick_pair pair = ticks_measure();
	struct pace pace;
	struct collector_options options = {.t = &runtime.base,
					    .lay = &runtime.lay,
					    .injection = &in,
					    .counters = &counters,
					    .ticks = &ticks,
					    .pace = &pace,
					    .cancel = &never,
					    .end_ns = UINT64_MAX};
	struct rings_stats stats;
	struct collector *c;
	struct drain *d;

	made_runtime_init(&runtime, 27, 1);
	pace_init(&pace);
	make_memory(&in);
	ticks_add(&ticks, &pair);
	assert_null(backlog_create(BLOCKS, &options.backlog));
	assert_null(drain_create(&in.layout, options.backlog, &d));
	assert_null(collector_start(&options, &c));
	start_writers(&in, writers, &ended);
	assert_int_equal(count_records(c, options.backlog, d, &ended), SLOTS * RECORDS_OF_SLOT);
	collector_rings_stats(c, &stats);
	assert_int_equal(stats.corrupt + stats.lost, 0);
	for (int i = 0; i < SLOTS; i++)
		pthread_join(writers[i].thread, NULL);
	collector_destroy(c);
	drain_destroy(d);
	backlog_destroy(options.backlog);
	munmap(in.shared, in.layout.size);
	made_runtime_release(&runtime);
}

/* ---- the pace of the decoding thread, on a machine without a free CPU ---- */

enum { MANY_BLOCKS = 1024, WAITING_BYTES = 1000, SOON_MS = 2000, A_WHILE_MS = 100 };

/* As many threads want a CPU as this text of /proc/loadavg says. */
static int made_loadavg(const char *text)
{
	int fd = memfd_create("loadavg", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	return fd;
}

static void a_cpu_is_free_when_no_more_threads_run_than_there_are_cpus(void **state)
{
	static const struct {
		const char *text;
		bool free;
	} cases[] = {{"0.00 0.00 0.00 1/80 4711\n", true},     {"0.00 0.00 0.00 4/80 4711\n", true},
		     {"0.00 0.00 0.00 5/80 4711\n", false},    {"9.99 9.99 9.99 3/80 4711\n", true},
		     {"0.00 0.00 0.00 120/300 4711\n", false}, {"", true}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct pace pace = {.running = made_loadavg(cases[i].text), .processors = 4};

		assert_int_equal(pace_is_free(&pace), cases[i].free);
		pace_release(&pace);
	}
}

struct paced {
	struct made_runtime runtime;
	struct injection in;
	struct counters counters;
	struct ticks ticks;
	struct pace pace;
	struct collector *c;
	struct backlog *backlog;
};

/* With some bytes that wait. */
static struct paced *start_paced(const struct collector_limits *limits, const atomic_int *cancel)
{
	struct paced *p = aligned_alloc(alignof(struct paced), sizeof(*p));
	struct tick_pair pair = ticks_measure();
	struct collector_options options = {.t = &p->runtime.base,
					    .lay = &p->runtime.lay,
					    .injection = &p->in,
					    .counters = &p->counters,
					    .ticks = &p->ticks,
					    .pace = &p->pace,
					    .limits = *limits,
					    .cancel = cancel,
					    .end_ns = UINT64_MAX};
	struct block *block;

	assert_non_null(p);
	memset(p, 0, sizeof(*p));
	made_runtime_init(&p->runtime, 27, 1);
	p->pace = (struct pace){.running = made_loadavg("9 9 9 99/100 1\n"), .processors = 1};
	make_memory(&p->in);
	ticks_add(&p->ticks, &pair);
	assert_null(backlog_create(MANY_BLOCKS, &p->backlog));
	block = backlog_get(p->backlog);
	block->used = WAITING_BYTES;
	backlog_put(p->backlog, block);
	options.backlog = p->backlog;
	assert_null(collector_start(&options, &p->c));
	return p;
}

static void end_paced(struct paced *p)
{
	collector_destroy(p->c);
	backlog_destroy(p->backlog);
	munmap(p->in.shared, p->in.layout.size);
	made_runtime_release(&p->runtime);
	free(p);
}

static bool goes_on_within(struct paced *p, uint64_t ms)
{
	uint64_t end = clock_now() + ms * 1000000;

	while (clock_now() < end)
		if (collector_lets_go_on(p->c))
			return true;
	return false;
}

static void nothing_is_decoded_while_no_cpu_is_free(void **state)
{
	struct paced *p = start_paced(&(struct collector_limits){0}, &never);

	assert_false(goes_on_within(p, A_WHILE_MS));
	collector_finish(p->c);
	assert_true(goes_on_within(p, SOON_MS));
	end_paced(p);
}

static void a_limit_of_what_waits_is_kept(void **state)
{
	static const struct {
		struct collector_limits limits;
		bool reached;
	} cases[] = {{{.bytes = WAITING_BYTES - 1}, true},
		     {{.bytes = WAITING_BYTES}, false},
		     {{.ns = 10000000}, true},
		     {{.ns = 10000000000}, false}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct paced *p = start_paced(&cases[i].limits, &never);
		bool reached = cases[i].reached;

		assert_int_equal(goes_on_within(p, reached ? SOON_MS : A_WHILE_MS), reached);
		end_paced(p);
	}
}

static void a_cancelled_trace_is_decoded_at_once(void **state)
{
	atomic_int cancel = 0;
	struct paced *p = start_paced(&(struct collector_limits){0}, &cancel);

	assert_false(goes_on_within(p, A_WHILE_MS));
	atomic_store(&cancel, 1);
	assert_true(goes_on_within(p, SOON_MS));
	end_paced(p);
}

/* A program that uses the library waits for its signals by sigwait() or a signalfd. */
static void a_signal_that_the_thread_blocks_does_not_hurry_it(void **state)
{
	sigset_t set, before;
	struct paced *p;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &set, &before);
	p = start_paced(&(struct collector_limits){0}, &never);
	kill(getpid(), SIGUSR2);
	assert_false(goes_on_within(p, A_WHILE_MS));
	end_paced(p);
	assert_int_equal(sigtimedwait(&set, NULL, &(struct timespec){0}), SIGUSR2);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void a_signal_that_waits_for_the_thread_hurries_it(void **state)
{
	struct paced *p = start_paced(&(struct collector_limits){0}, &never);
	sigset_t set, before;

	assert_false(goes_on_within(p, A_WHILE_MS));
	/* From here on the thread does not get to it, as one without a CPU. */
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &set, &before);
	kill(getpid(), SIGUSR2);
	assert_true(goes_on_within(p, SOON_MS));
	assert_int_equal(sigtimedwait(&set, NULL, &(struct timespec){0}), SIGUSR2);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	end_paced(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_arrive_once_and_in_order),
		cmocka_unit_test(a_cpu_is_free_when_no_more_threads_run_than_there_are_cpus),
		cmocka_unit_test(nothing_is_decoded_while_no_cpu_is_free),
		cmocka_unit_test(a_limit_of_what_waits_is_kept),
		cmocka_unit_test(a_cancelled_trace_is_decoded_at_once),
		cmocka_unit_test(a_signal_that_the_thread_blocks_does_not_hurry_it),
		cmocka_unit_test(a_signal_that_waits_for_the_thread_hurries_it),
	};

	permit_only(PERMIT_ALL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
