/*
 * The tables: functions, wait reasons, goroutines, creators and labels, as rows that are filtered
 * and sorted.
 *
 * Numbers are of goroutines on average over the model's window: 2 running is two cores' time. Rows
 * with almost no time are left out, unless there is a filter.
 */
#ifndef TOP_ROWS_H
#define TOP_ROWS_H

#include "top/names.h"
#include "top/top_model.h"

enum top_table { TOP_FUNCTIONS, TOP_WAITS, TOP_GOROUTINES, TOP_CREATORS, TOP_LABELS };
#define TOP_TABLES 5

/* Sort keys of rows; a table has only some of them. */
enum top_column {
	TOP_BY_SELF,
	TOP_BY_RUNNING,
	TOP_BY_RUNNABLE,
	TOP_BY_SYSCALL,
	TOP_BY_WAITING,
	TOP_BY_BLOCKED,
	TOP_BY_COUNT,
	TOP_BY_GROWTH, /* since the first interval */
	TOP_BY_CHANGE, /* since the oldest interval that is kept */
	TOP_BY_TIME,
	TOP_BY_GOID,
	TOP_BY_STATE,
	TOP_BY_NAME,
	/* Shown, but not sort keys. */
	TOP_SERIES,
	TOP_PLACE,
};

/* The columns of a table, the default one first; *ret_count of them. */
const enum top_column *top_columns(enum top_table table, size_t *ret_count);

/* The most goroutines in the table: the first in its order. */
#define TOP_MAX_GOROUTINES 1000

struct top_goroutine {
	uint64_t goid;
	uint64_t since; /* since when it is there: CLOCK_MONOTONIC */
	struct top_key key;
};

struct top_row {
	uint32_t name;
	double self;               /* running, in the function itself */
	double states[TOP_STATES]; /* for a function: anywhere on the stack */
	double blocked;            /* waiting, but not for work */
	double count;              /* goroutines, in the last interval */
	double growth;             /* change of `count` since the first interval */
	double change;             /* the same since the oldest interval that is kept */
	uint64_t time;             /* ns; for wait reasons, labels and creators: the longest */
	uint32_t place;            /* for a wait reason: where most of it is */
	double place_blocked, place_waiting;
	struct top_goroutine goroutine; /* only in the table of goroutines */
};

struct top_place_sum {
	uint32_t reason;
	uint32_t place;
	double blocked, waiting;
};

struct top_rows {
	enum top_table table;
	enum top_column sort;
	bool reverse;
	const char *filter; /* "" for all; the caller's */
	uint64_t now;       /* CLOCK_MONOTONIC */

	struct top_row *items;
	size_t count;
	size_t capacity;
	size_t goroutines;         /* matching goroutines, in the table of goroutines */
	size_t left_out;           /* rows with almost no time */
	double totals[TOP_STATES]; /* of all goroutines; rows show their share */
	double total_blocked;
	/* Private. */
	struct top_names *names;
	const struct top_model *model;
	uint32_t *row_of;  /* by name: index of its row + 1 */
	struct map places; /* wait reason and place -> index in `place_sums` + 1 */
	struct top_place_sum *place_sums;
	size_t place_count, place_capacity;
	uint32_t labels[TOP_MAX_LABELS], single;
	size_t row_of_capacity;
	uint8_t *matches; /* by name: whether it contains the filter's text, see name_matches() */
	size_t matches_capacity;
	char *matched; /* the filter for which `matches` holds */
	bool bounded;  /* only goroutines up to `bound` are kept */
	struct top_row bound;
};

/*
 * Makes the rows: begin, then each goroutine (if top_rows_want_goroutines()), then finish. A
 * goroutine matches the filter when a function of its stack, a label, the creator, the state or the
 * wait reason contains the text, ignoring case. After "=" the text has to equal one of these.
 */
struct error *top_rows_begin(struct top_rows *r, const struct top_model *m,
			     struct top_names *names) must_check;
bool top_rows_want_goroutines(const struct top_rows *r);
struct error *top_rows_add_goroutine(struct top_rows *r, const struct top_goroutine *g) must_check;
void top_rows_finish(struct top_rows *r);

/* The names of the rows that such a goroutine counts in; valid until the next call. */
struct error *top_rows_names(struct top_rows *r, const struct top_key *key, const uint32_t **ret,
			     uint32_t *ret_count) must_check;
/* Whether the goroutine passes the filter. */
struct error *top_rows_match(struct top_rows *r, const struct top_key *key, bool *ret) must_check;
void top_rows_release(struct top_rows *r);

#endif
