/* Reads profiles of the Firefox Profiler (firefox.c): versions 56 and 57 of its processed
 * format. */
#ifndef PROFILE_READ_FIREFOX_H
#define PROFILE_READ_FIREFOX_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/error.h"

struct json_object;
struct rebuild;

bool firefox_is(struct json_object *root);
/* Reads the wall time of each stack, state and wait reason. Times of samples are not read. */
struct error *firefox_read(struct rebuild *r, struct json_object *root,
			   const atomic_int *cancel) must_check;

#endif
