/* Which goroutines are leaked, for what shows these alone or marks them. */
#ifndef LIB_LEAKED_H
#define LIB_LEAKED_H

#include <gospect/leaks.h>

#include "base/error.h"
#include "base/map.h"

/* Adds the ids of those that are leaked for certain. */
struct error *leaked_ids(const struct gospect_leaks *leaks, struct map *ret) must_check;
/* Finds them in the target, as gospect_leaks_find(). */
struct error *leaked_find(struct gospect_target *t, struct map *ret) must_check;

#endif
