/* Where in the target's address space the agent goes, and how much of it is needed. */
#ifndef HOOKS_REGION_H
#define HOOKS_REGION_H

#include <stdint.h>

#include "base/error.h"
#include "golayout/golayout.h"
#include "image/image.h"
#include "target/target.h"

/* A free address for so many bytes within reach of jumps to and from the program's code, far from
 * other mappings, because the heap of C grows. ERROR_UNSUPPORTED: none. */
struct error *region_choose(struct target *t, const struct image *img, uint64_t size,
			    uint64_t *ret) must_check;

/* How many Ps there are. */
struct error *region_p_count(struct target *t, const struct golayout *lay,
			     uint64_t *ret) must_check;

/* How many of them there are now, up to AGENT_MOST_P_SLOTS, and how many get a slot: there may be
 * more later. */
struct error *region_p_slots(struct target *t, const struct golayout *lay, uint64_t *ret_now,
			     uint64_t *ret) must_check;

#endif
