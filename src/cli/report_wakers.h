/* Who ended waits, in the tables and lists of `gospect report` and `offcpu`. */
#ifndef CLI_REPORT_WAKERS_H
#define CLI_REPORT_WAKERS_H

#include <gospect/profile.h>
#include <json-c/json_types.h>
#include <stdbool.h>

#include "base/strbuf.h"

/* The innermost frame of the program's own code, else the innermost; NULL: no frames. */
const struct gospect_frame *cause_frame(const struct gospect_stack *stack);

/* Adds "ended by main.release:12 (goroutine 7, 3 ms), a timer (2 times, 1 ms)"; nothing without
 * wakers. `ns` is the whole time of the waits. Narrow: functions have no path of their package. */
void report_add_wakers(struct strbuf *line, const struct gospect_waker *const *wakers, size_t count,
		       uint64_t ns, bool narrow);

struct json_object *report_wakers_json(const struct gospect_waker *const *wakers, size_t count);
struct json_object *report_frames_json(const struct gospect_stack *stack);

#endif
