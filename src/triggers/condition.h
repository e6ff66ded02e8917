/*
 * When a flight recorder writes its file: conditions as users type them.
 *
 *	request [/REGEX/] > 500ms	a call of a handler, of those whose name matches
 *	runnable > 20ms			a goroutine that could run did not
 *	lock > 100ms			a wait for a Mutex or RWMutex
 *	stop > 5ms			the runtime stopped the world
 *	goroutines > 10000
 *	heap > 1GB			the live heap and what was allocated since
 *	call REGEX			a function was called
 *	panic
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
};

struct condition {
	enum condition_kind kind;
	uint64_t limit; /* ns, goroutines or bytes; true above it. Of a call and a panic: 0 */
	regex_t name;   /* of the function */
	bool has_name;
	char *pattern; /* the text of `name` */
};

/* ERROR_USAGE: it is none. */
struct error *condition_parse(const char *text, struct condition *ret) must_check;
void condition_release(struct condition *c);

/* A word for file names. */
const char *condition_word(const struct condition *c);
bool condition_is_of_time(const struct condition *c);

#endif
