/*
 * The last minute: the samples of each second, and their sum over a window that ends now. It knows
 * neither clock nor target: its input is the intervals of the sampler.
 */
#ifndef TOP_TOP_MODEL_H
#define TOP_TOP_MODEL_H

#include "base/map.h"
#include "sample/wall.h"

#define TOP_INTERVALS 60
#define TOP_STATES 4 /* running, runnable, syscall, waiting */

enum top_state { TOP_RUNNING, TOP_RUNNABLE, TOP_SYSCALL, TOP_WAITING };

enum top_state top_state_of(enum goroutine_status status);
/* "running", "runnable", "syscall", "waiting" */
const char *top_state_name(enum top_state state);

/* The key of a counter. */
struct top_key {
	uint32_t stack;
	uint32_t labels;
	uint32_t creator;
	enum goroutine_status status;
	uint8_t wait_reason;
};

struct top_total {
	uint64_t ns;
	uint64_t cpu_ns;
	uint64_t count;
};

struct top_amount {
	uint32_t key;
	struct top_total total;
};

/* An item of the first interval. Its key stays when the model forgets others. */
struct top_first {
	struct top_key key;
	uint64_t ns;
};

struct top_interval {
	uint64_t ns;
	uint64_t states[TOP_STATES]; /* ns of goroutines */
	struct top_amount *items;
	size_t count;
	size_t capacity;
};

struct top_model {
	struct top_interval intervals[TOP_INTERVALS]; /* a ring */
	uint64_t interval_count;                      /* number of intervals ever added */

	struct top_key *keys; /* from 1 on */
	struct top_total *totals;
	size_t key_count;
	size_t key_capacity, total_capacity;
	struct map index; /* hash of a key -> its index */

	/* The first interval of all, to which growth is relative. */
	struct top_first *first_items;
	size_t first_count;
	uint64_t first_ns;

	unsigned int window; /* seconds */
	uint64_t first;      /* the window's first interval */
	uint64_t window_ns;
};

void top_model_init(struct top_model *m, unsigned int window);
void top_model_release(struct top_model *m);

/* Adds an interval, and forgets the oldest. An interval without time is ignored. */
struct error *top_model_add(struct top_model *m, const struct wall_interval *interval) must_check;
/* Sums over the last `seconds`, as far as there are intervals. */
void top_model_set_window(struct top_model *m, unsigned int seconds);

/* The interval `back` before the last; NULL when there is none. */
const struct top_interval *top_model_interval(const struct top_model *m, size_t back);
/* How many intervals are kept. */
size_t top_model_intervals(const struct top_model *m);
/* How many goroutines were in that state, on average over the window. */
double top_model_state(const struct top_model *m, enum top_state state);
/* How many goroutines this time amounts to, on average over the window. */
double top_model_mean(const struct top_model *m, uint64_t ns);

#endif
