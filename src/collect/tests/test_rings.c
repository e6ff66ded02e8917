/* Which part of the shared memory gospect populates, whatever the target claims. */
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/unit_test.h"
#include "collect/backlog.h"
#include "collect/rings.h"

enum { SLOTS = 1024, BLOCKS = 64 };
#define RING (1ull << 24)
#define MB (1ull << 20)
/* Present beside what is unread. */
#define MOST (256 * MB)

struct injection {
	struct agent_shared layout;
	uint64_t populated;
	int file;
};

void inject_read(const struct injection *in, uint64_t offset, void *ret, size_t size)
{
	assert_int_equal(pread(in->file, ret, size, offset), size);
}

void inject_populate(const struct injection *in, uint64_t offset, uint64_t size)
{
	assert_true(offset >= in->layout.rings_offset && offset + size <= in->layout.size);
	((struct injection *)in)->populated += size;
}

struct made {
	struct injection in;
	struct agent_shared *shared;
	struct rings *rings;
	struct backlog *backlog;
};

static void make(struct made *m, uint64_t room)
{
	struct agent_shared *l = &m->in.layout;

	*m = (struct made){0};
	l->slots = SLOTS;
	l->ring_bytes = RING;
	l->slots_offset = 4096;
	l->rings_offset = l->slots_offset + SLOTS * AGENT_SLOT_BYTES;
	l->size = l->rings_offset + SLOTS * RING;
	m->in.file = memfd_create("rings", MFD_CLOEXEC);
	assert_int_equal(ftruncate(m->in.file, l->size), 0);
	m->shared = mmap(NULL, l->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
			 m->in.file, 0);
	assert_true(m->shared != MAP_FAILED);
	assert_null(rings_create(m->shared, l, &m->in, room, &m->rings));
	assert_null(backlog_create(BLOCKS, &m->backlog));
}

static void release(struct made *m)
{
	rings_destroy(m->rings);
	backlog_destroy(m->backlog);
	munmap(m->shared, m->in.layout.size);
	close(m->in.file);
}

/* The target's words of a slot: bytes that it wrote, places that it used. */
static void say(struct made *m, unsigned int slot, uint64_t write, uint32_t fresh)
{
	struct agent_slot *s = (void *)((uint8_t *)m->shared + m->in.layout.slots_offset +
					(uint64_t)slot * AGENT_SLOT_BYTES);

	s->write = write;
	s->fresh = fresh;
}

/* The memory that a look populates. */
static uint64_t look(struct made *m)
{
	uint64_t before = m->in.populated;
	struct block *first = backlog_get(m->backlog), *next;
	struct rings_stats stats;

	assert_non_null(first);
	rings_collect(m->rings, m->backlog, first, 1, 0, false);
	backlog_put(m->backlog, first);
	assert_null(backlog_take(m->backlog, &first));
	for (; first; first = next) {
		next = first->next;
		backlog_release(m->backlog, first);
	}
	rings_stats(m->rings, &stats);
	assert_int_equal(stats.populated, m->in.populated);
	return m->in.populated - before;
}

/* An older gospect made all 16 GB present. */
static void a_target_that_claims_all_rings_gets_a_part(void **state)
{
	struct made m;

	make(&m, UINT64_MAX);
	for (unsigned int i = 0; i < SLOTS; i++)
		say(&m, i, 16, UINT32_MAX);
	look(&m);
	assert_in_range(m.in.populated, 64 * MB, MOST + SLOTS * 16);
	release(&m);
}

static void what_is_present_is_not_more_than_a_part_of_the_room(void **state)
{
	struct made m;

	make(&m, 64 * MB);
	for (unsigned int round = 1; round < 4; round++) {
		for (unsigned int i = 0; i < SLOTS; i++)
			say(&m, i, round * AGENT_CHUNK_BYTES, UINT32_MAX);
		look(&m);
	}
	assert_in_range(m.in.populated, 1, 16 * MB);
	release(&m);
}

/* Of one ring that was full: all of it, for it may be so again. */
static void what_was_unread_is_made_present(void **state)
{
	struct made m;

	make(&m, UINT64_MAX);
	say(&m, 0, RING / 2, RING / 2 / AGENT_CHUNK_BYTES);
	assert_in_range(look(&m), RING / 2, RING);
	say(&m, 1, 16, 1);
	assert_in_range(look(&m), 1, 2 * MB);
	assert_int_equal(look(&m), 0);
	release(&m);
}

static uint64_t present(const struct made *m)
{
	struct stat st;

	assert_int_equal(fstat(m->in.file, &st), 0);
	return st.st_blocks * 512;
}

/* The words of slots are memory, the rings that nobody wrote are none. */
static void claims_of_what_was_never_written_take_no_memory(void **state)
{
	struct made m;
	uint64_t before;

	make(&m, UINT64_MAX);
	for (unsigned int i = 0; i < SLOTS; i++)
		say(&m, i, 0, UINT32_MAX);
	look(&m);
	before = present(&m);
	for (unsigned int i = 0; i < SLOTS; i++)
		say(&m, i, RING, UINT32_MAX);
	for (unsigned int round = 0; round < 8; round++)
		look(&m);
	assert_in_range(present(&m), before, before + SLOTS * 4096);
	release(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_target_that_claims_all_rings_gets_a_part),
		cmocka_unit_test(what_is_present_is_not_more_than_a_part_of_the_room),
		cmocka_unit_test(what_was_unread_is_made_present),
		cmocka_unit_test(claims_of_what_was_never_written_take_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
