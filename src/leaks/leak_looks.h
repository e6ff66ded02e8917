/* For the files of this directory only. */
#ifndef LEAKS_LEAK_LOOKS_H
#define LEAKS_LEAK_LOOKS_H

#include "leaks/leaks.h"

enum leak_state {
	LEAK_UNKNOWN,   /* not yet looked at */
	LEAK_CANDIDATE, /* nothing has reached what it waits for, so far */
	LEAK_AWAKE,     /* it can run, or be woken: its stack is a root */
};

/* The looks at the whole heap. */
struct leak_looks {
	struct leaks *leaks;
	struct target *t;
	const struct image *img;
	const struct golayout *lay;
	const struct leaks_options *options;
	struct wait_graph *waits;
	struct heap_marks *marks; /* of the current look */
	uint8_t *states;          /* of waits->goroutines: enum leak_state */
	uint32_t *added;          /* the look of the wait graph whose stack was added */
	bool *ran;                /* it ran at each look so far */
	uint8_t *agreeing;        /* so many looks in a row found it leaked */
	size_t count;
	size_t capacity[4];
	struct map conds;  /* g -> the sync.Cond in whose queue it was found */
	uint32_t previous; /* that of the look before */
	uint32_t start;    /* the look of the wait graph with which the current look began */
};

/* Marks all that goroutines which can run reach, look after look. What is left are candidates. */
struct error *leak_looks_take(struct leak_looks *l) must_check;
void leak_looks_release(struct leak_looks *l);

/* Whether the goroutine waits for something inside the program alone: a channel, or an object of
 * package sync, which is known for certain. */
bool leak_looks_may_be_leaked(const struct leak_looks *l, size_t i);

/* Adds the stack of a goroutine as a root. */
struct error *leak_looks_add(struct leak_looks *l, size_t i) must_check;

/* Finds the sync.Cond of each goroutine that waits for one: in the Cond's own queue. */
struct error *leak_conds_find(struct leak_looks *l) must_check;

/* Makes groups of the candidates, and counts what they retain. */
struct error *leak_groups_make(struct leak_looks *l) must_check;

#endif
