/* The file for collections that do not fit into memory: written, and damaged since. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/unit_test.h"
#include "collect/backlog.h"
#include "collect/spill.h"

enum { FILE_BYTES = 1 << 20, USED = 4000 };

struct made {
	struct spill spill;
	struct block block;
	uint64_t at;
};

static int make(void **state)
{
	struct made *m = calloc(1, sizeof(*m));

	spill_init(&m->spill, memfd_create("test", 0), FILE_BYTES);
	m->block.piece_count = 2;
	m->block.used = USED;
	m->block.pieces[0].size = m->block.pieces[1].size = USED / 2;
	*state = m;
	return spill_write(&m->spill, &m->block, &m->at) ? 0 : -1;
}

static int unmake(void **state)
{
	struct made *m = *state;

	close(m->spill.file);
	free(m);
	return 0;
}

static void spilled_block_reads_back_equal(void **state)
{
	struct made *m = *state;
	struct block *block;

	assert_null(spill_read(&m->spill, m->at, &block));
	assert_int_equal(block->used, USED);
	assert_ptr_equal(block->pieces[1].bytes, block->bytes + USED / 2);
	free(block);
}

/* With this number at that offset of the block. */
static void assert_refused(struct made *m, size_t offset, uint32_t number)
{
	struct block *block;

	assert_int_equal(pwrite(m->spill.file, &number, sizeof(number), (off_t)offset),
			 sizeof(number));
	assert_true(error_dropped(spill_read(&m->spill, m->at, &block)));
}

static void spill_refuses_excess_pieces(void **state)
{
	assert_refused(*state, offsetof(struct block, piece_count), BLOCK_PIECES + 1);
}

static void spill_refuses_excess_bytes(void **state)
{
	assert_refused(*state, offsetof(struct block, used), BLOCK_BYTES + 1);
}

static void pieces_that_are_longer_than_the_block_are_refused(void **state)
{
	assert_refused(*state, offsetof(struct block, pieces) + offsetof(struct piece, size), USED);
}

static void spill_refuses_excess_counters(void **state)
{
	assert_refused(*state, offsetof(struct block, about.counter_count),
		       COUNTERS_MAX_EVENTS + 1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make, unmake)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(spilled_block_reads_back_equal),
		TEST(spill_refuses_excess_pieces),
		TEST(spill_refuses_excess_bytes),
		TEST(pieces_that_are_longer_than_the_block_are_refused),
		TEST(spill_refuses_excess_counters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
