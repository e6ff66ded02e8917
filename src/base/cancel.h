/* Long work checks now and then whether it is still wanted. */
#ifndef BASE_CANCEL_H
#define BASE_CANCEL_H

#include <stdatomic.h>

#include "base/error.h"

/* Returns &error_stopped if the flag is set. A NULL flag is never set. */
static inline struct error *must_check cancel_check(const atomic_int *cancel)
{
	return cancel && atomic_load(cancel) ? &error_stopped : NULL;
}

#endif
