/* From what was seen to a profile: shared by the verbs that write one. */
#ifndef CLI_FILL_H
#define CLI_FILL_H

#include "cli/subject.h"
#include "goroutine/goroutines.h"
#include "profile/profile.h"

/* What the profile is of: program, Go version, mappings. */
struct error *fill_process(struct profile *p, const struct subject *s) must_check;

/* The mappings of the C code that the profile's stacks lead through, besides the program's own.
 * Its samples are all there. */
struct error *fill_modules(struct profile *p, const struct modules *modules) must_check;

/* A comment that says how the stacks were found. */
struct error *fill_unwinding(struct profile *p, struct goroutine_set *set) must_check;

/* What was seen of goroutines that were alike; times and counts are in `sample`, which is completed
 * and added. */
struct error *fill_sample(struct profile *p, struct goroutine_set *set, uint32_t stack,
			  uint32_t labels, enum goroutine_status status, uint8_t wait_reason,
			  struct profile_sample *sample) must_check;

#endif
