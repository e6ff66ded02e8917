/* Where no thread may stand when the hooks are put in. */
#ifndef HOOKS_UNSAFE_FUNCTIONS_H
#define HOOKS_UNSAFE_FUNCTIONS_H

#include <stdbool.h>

#include "image/image.h"
#include "inject/quiescence.h"

/*
 * Those that change the state of a goroutine or a P, and have a hook. A thread that is inside when
 * the hook is installed makes its change without a record, and the goroutine is later found in a
 * state to which no record led. So are those where a goroutine is parked. `goid_late`: and the end
 * of newproc1, where a goroutine is before it has its goid.
 */
void unsafe_functions(const struct image *img, const struct code_head *head, bool goid_late,
		      struct quiescence_functions *ret);

#endif
