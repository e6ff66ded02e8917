/*
 * Single goroutines of a profile: those that used most CPU time, and those with the longest single
 * wait. Each row has the goroutine's time in each sample, and when that was.
 *
 * Memory is bounded. If there are too many goroutines, the caller reads its times twice: first into
 * a ledger of sums, from which some goroutines are chosen, and then into the rows of these. If
 * there are few, all have a row, and one reading is enough.
 */
#ifndef PROFILE_GOROUTINE_ROWS_H
#define PROFILE_GOROUTINE_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/map.h"
#include "profile/timeline.h"

struct profile;
struct profile_symbols;

/* So many are chosen by CPU time, and as many by their longest wait. */
#define GOROUTINE_ROWS_EACH 200u
/* The most goroutines with a sum of their own; all others share one. They take at most 200 MB. */
#define GOROUTINE_ROWS_MOST_SUMS (1u << 20)
/* The most parts of all rows together; further time is left out. */
#define GOROUTINE_ROWS_MOST_PARTS (1u << 17)
/* How many longest waits of a goroutine are kept, each at another place. */
#define GOROUTINE_ROWS_WAITS 3

/* A time that a goroutine spent in one state, in ns since the profile began. */
struct goroutine_time {
	uint64_t goroutine;
	uint32_t start;  /* its start function, in the profile's strings; 0: not known */
	uint32_t sample; /* its index in the profile's samples */
	uint64_t begin;
	uint64_t end;
};

struct goroutine_wait {
	uint64_t ns;
	uint32_t sample;
};

struct goroutine_sum {
	uint64_t goroutine;
	uint64_t cpu_ns;
	uint64_t wall_ns;
	struct goroutine_wait waits[GOROUTINE_ROWS_WAITS];
	uint32_t start;
};

struct goroutine_ledger {
	struct goroutine_sum *sums;
	size_t count;
	size_t capacity;
	struct map index; /* goroutine -> its index in sums + 1 */
	struct goroutine_sum beyond;
};

struct goroutine_row {
	uint64_t goroutine;
	uint32_t start;      /* in the profile's strings */
	uint64_t longest_ns; /* its longest wait that is not idle; 0: none */
};

/* All time of a goroutine in one sample. */
struct goroutine_part {
	uint32_t row;
	uint32_t sample;
	uint64_t ns;
};

struct goroutine_rows {
	struct goroutine_row *rows;
	size_t count;
	struct map index; /* goroutine -> its index in rows + 1 */
	struct goroutine_part *parts;
	size_t part_count;
	size_t part_capacity;
	struct map part_index;    /* row << 32 | sample -> its index in parts + 1 */
	struct timeline timeline; /* its rows are indices of parts */
	/* Goroutines without a row, and their time. */
	uint64_t others;
	uint64_t others_cpu_ns;
	uint64_t others_wall_ns;
	bool is_full; /* more goroutines were offered than can have a row */
};

struct error *goroutine_ledger_add(struct goroutine_ledger *l, const struct profile *p,
				   const struct goroutine_time *time) must_check;

/* Adds the time, and makes a row for each goroutine. If there are too many, all rows are dropped,
 * because some goroutines must be chosen. */
struct error *goroutine_rows_offer(struct goroutine_rows *r,
				   const struct goroutine_time *time) must_check;

/* Chooses goroutines and makes their rows, unless all in the ledger have one. A goroutine that
 * waits for work, or at one place during the whole profile, is idle; that is not counted as a
 * wait. */
struct error *goroutine_ledger_choose(const struct goroutine_ledger *l, const struct profile *p,
				      const struct profile_symbols *symbols,
				      struct goroutine_rows *ret) must_check;

static inline bool goroutine_rows_has(const struct goroutine_rows *r, uint64_t goroutine)
{
	return map_find(&r->index, goroutine);
}

/* Ignores goroutines without a row. */
struct error *goroutine_rows_add(struct goroutine_rows *r,
				 const struct goroutine_time *time) must_check;

void goroutine_ledger_release(struct goroutine_ledger *l);
void goroutine_rows_release(struct goroutine_rows *r);
#define _cleanup_goroutine_ledger_ __attribute__((cleanup(goroutine_ledger_release)))

#endif
