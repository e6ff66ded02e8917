/*
 * When a flight recorder writes its file: conditions as users type them.
 *
 *	request [/REGEX/] > 500ms [route REGEX]
 *					a call of a handler, of those whose name matches; of a
 *					request whose route or path matches
 *	runnable > 20ms			a goroutine that could run did not
 *	lock > 100ms			a wait for a Mutex or RWMutex
 *	stop > 5ms			the runtime stopped the world
 *	goroutines > 10000
 *	heap > 1GB			the live heap and what was allocated since
 *	call REGEX			a function was called
 *	panic
 *	rss > 80%			resident memory, of the control group's limit; or > 1GB
 *	growth > 1000			goroutines more than a minute ago
 *	wait [/REGEX/] > 5s		a goroutine waits, with such a function on its stack
 *
 * A trace has no growth and no wait. A look from outside (gospect watch) sees no request, no stop,
 * no call and no panic.
 */
#ifndef TRIGGERS_CONDITION_H
#define TRIGGERS_CONDITION_H

#include <regex.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum condition_kind {
	CONDITION_REQUEST,
	CONDITION_RUNNABLE,
	CONDITION_LOCK,
	CONDITION_STOP,
	CONDITION_GOROUTINES,
	CONDITION_HEAP,
	CONDITION_CALL,
	CONDITION_PANIC,
	CONDITION_RSS,
	CONDITION_GROWTH,
	CONDITION_WAIT,
};

struct condition {
	enum condition_kind kind;
	uint64_t limit; /* ns, goroutines, bytes or percent; true above it. Of a call and a panic: 0
			 */
	bool is_percent;
	regex_t route; /* of a request: its route or its path matches */
	bool has_route;
	regex_t name; /* of the function */
	bool has_name;
	char *pattern; /* the text of `name` */
};

/* ERROR_USAGE: it is none. */
struct error *condition_parse(const char *text, struct condition *ret) must_check;
void condition_release(struct condition *c);

/* A word for file names. */
const char *condition_word(const struct condition *c);
bool condition_is_of_time(const struct condition *c);
bool condition_is_of_trace(const struct condition *c);
bool condition_is_of_looks(const struct condition *c);

#define CONDITION_TEXT 256
/* What `rss` compares with its limit; `limit` is the control group's, or 0. */
double condition_rss_level(const struct condition *c, uint64_t rss, uint64_t limit);
void condition_rss_text(uint64_t rss, uint64_t limit, char ret[static CONDITION_TEXT]);

#endif
