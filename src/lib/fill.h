/* Converts the sampler's data to a profile; all recordings share it. */
#ifndef LIB_FILL_H
#define LIB_FILL_H

#include "goroutine/goroutines.h"
#include "lib/target_handle.h"
#include "profile/profile.h"

/* Fills in the profile's program, Go version and mappings. */
struct error *fill_process(struct profile *p, const struct gospect_target *s) must_check;

/* Adds the mappings of C code in the profile's stacks, besides the program's own. Call it after all
 * samples are added. */
struct error *fill_modules(struct profile *p, const struct modules *modules) must_check;

/* A comment that says how the stacks were found. */
struct error *fill_unwinding(struct profile *p, struct goroutine_set *set) must_check;

/* The total of goroutines that were alike; times and counts are in `sample`, which is completed and
 * added; *ret_place (or NULL) is its place in the profile's samples. */
struct error *fill_sample(struct profile *p, struct goroutine_set *set, uint32_t stack,
			  uint32_t labels, enum goroutine_status status, uint8_t wait_reason,
			  struct profile_sample *sample, uint32_t *ret_place) must_check;

#endif
