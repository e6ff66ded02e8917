/* Who ended waits (requests/wakers.h), as the library returns it. */
#ifndef LIB_GIVE_WAKERS_H
#define LIB_GIVE_WAKERS_H

#include <gospect/profile.h>

#include "base/map.h"
#include "lib/given.h"
#include "requests/spans.h"
#include "requests/wakers.h"

/* The state while the parts of one row are returned. */
struct giving_wakers {
	struct arena *arena;
	const struct span_tables *tables;
	struct map stacks; /* a stack's number -> what was made of it in the arena */
};

/* Those of waits for this reason. Beyond the 1,000 longest they are added up. NULL: no memory. */
const struct gospect_waker *const *give_wakers(struct giving_wakers *g, const char *reason,
					       const struct waker *from, size_t count,
					       size_t *ret_count);

/* Each stack is made once. NULL: no memory. */
const struct gospect_stack *give_stack(struct giving_wakers *g, uint32_t stack);

#endif
