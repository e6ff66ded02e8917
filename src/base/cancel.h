/* Work that is long looks now and then at whether it is still wanted. */
#ifndef BASE_CANCEL_H
#define BASE_CANCEL_H

#include <stdatomic.h>

#include "base/error.h"

/* &error_stopped when it is not 0; NULL as the flag: never. */
static inline struct error *must_check cancel_check(const atomic_int *cancel)
{
	return cancel && atomic_load(cancel) ? &error_stopped : NULL;
}

#endif
