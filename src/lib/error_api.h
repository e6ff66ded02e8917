/* Errors at the border of the library: a struct gospect_error is a struct error, seen from outside.
 */
#ifndef LIB_ERROR_API_H
#define LIB_ERROR_API_H

#include <gospect/error.h>

#include "base/error.h"

static inline struct gospect_error *error_out(struct error *err)
{
	return (struct gospect_error *)err;
}

/* For an error of a library function that the library itself calls. */
static inline struct error *error_in(struct gospect_error *err)
{
	return (struct error *)err;
}

#endif
