/*
 * Checks conditions by looks from outside: the number of goroutines, and how long each has been
 * where it is. A goroutine that did not run between two looks keeps its record, so its wait is at
 * least as old as the first look that found it there.
 */
#ifndef LIB_WATCH_LOOKS_H
#define LIB_WATCH_LOOKS_H

#include <regex.h>

#include "collect/counters.h"
#include "goroutine/goroutines.h"
#include "lib/target_handle.h"
#include "triggers/back_off.h"
#include "triggers/condition.h"

#define LOOKS_MOST_CONDITIONS 16
/* Growth is over so many seconds. */
#define LOOKS_GROWTH_S 60

struct looks_count {
	uint64_t second; /* 0: none */
	uint64_t count;  /* of goroutines */
};

struct looks {
	struct gospect_target *target;
	struct condition conditions[LOOKS_MOST_CONDITIONS];
	struct {
		struct back_off back_off;
		bool is_above;
	} states[LOOKS_MOST_CONDITIONS];
	size_t count;
	struct goroutine_set *set;
	struct goroutine_set *before; /* its predecessor, during the first scan of `set` */
	uint64_t opened;              /* when `set` was */
	struct map stacks;            /* stack -> bits of the conditions that it matches, + 1 */
	struct counters counters;
	uint64_t now;
	uint64_t rest_ns;
	uint64_t goroutines;
	struct looks_count history[LOOKS_GROWTH_S];
	void (*incident)(void *arg, const char *word, const char *sentence);
	void *arg;
	uint64_t incidents, rested;
};

struct error *looks_parse(struct looks *l, const char *const *conditions) must_check;
void looks_release(struct looks *l);
/* One look; calls l->incident for each condition that became true. */
struct error *looks_look(struct looks *l) must_check;

#endif
