/* Errors at the border of the library: a struct gospect_error is a struct error, seen from outside.
 */
#ifndef LIB_ERROR_H
#define LIB_ERROR_H

#include <gospect/error.h>

#include "base/error.h"

static inline struct gospect_error *error_out(struct error *err)
{
	return (struct gospect_error *)err;
}

#endif
