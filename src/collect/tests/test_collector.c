/* The collector's thread between one that writes rings, as the agent does, and one that decodes. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/permit.h"
#include "base/unit_test.h"
#include "collect/collector.h"
#include "collect/drain.h"
#include "tests/made_runtime.h"

enum { SLOTS = 2, RING = 4 * AGENT_CHUNK_BYTES, BLOCKS = 64, RECORDS_OF_SLOT = 200000 };

/* What is injected here, in place of the room `inject`: shared memory without a process. */
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

/* A chunk, then records up to its end. */
static void *write_records(void *arg)
{
	struct writer *w = arg;
	uint64_t at = 0;

	for (uint32_t i = 0; i < RECORDS_OF_SLOT; i++) {
		uint64_t left = AGENT_CHUNK_BYTES - at % AGENT_CHUNK_BYTES;
		uint8_t record[] = {RECORD_START, 0, 1};

		if (at % AGENT_CHUNK_BYTES && left < sizeof(record) + 1) {
			put(w, &at, &(uint8_t){RECORD_NONE}, 1);
			at += left - 1;
		}
		__atomic_store_n(&w->slot->busy, 1, __ATOMIC_SEQ_CST);
		if (!(at % AGENT_CHUNK_BYTES)) {
			struct agent_chunk chunk = {.tick = ticks_now(), .thread = 1};

			put(w, &at, &chunk, sizeof(chunk));
			__atomic_store_n(&w->slot->tick, chunk.tick, __ATOMIC_RELAXED);
		}
		put(w, &at, record, sizeof(record));
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
					    .end_ns = UINT64_MAX};
	struct rings_stats stats;
	struct collector *c;
	struct drain *d;

	made_runtime_init(&runtime, 27, 1);
	pace_init(&pace);
	make_memory(&in);
	ticks_add(&ticks, &pair);
	assert_null(backlog_create(BLOCKS, &options.backlog));
	assert_null(drain_create(in.shared, &in.layout, options.backlog, &d));
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_arrive_once_and_in_order),
	};

	permit_only(PERMIT_ALL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
