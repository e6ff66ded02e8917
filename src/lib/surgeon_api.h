/* The definition of struct gospect_surgeon. */
#ifndef LIB_SURGEON_API_H
#define LIB_SURGEON_API_H

#include <gospect/confine.h>

#include "inject/surgeon.h"

/* The connection to the surgeon; valid until the surgeon is ended. */
struct surgeon_line surgeon_line_of(struct gospect_surgeon *s);

static inline void cleanup_gospect_surgeon(struct gospect_surgeon **s)
{
	gospect_surgeon_end(*s);
}
#define _cleanup_gospect_surgeon_ __attribute__((cleanup(cleanup_gospect_surgeon)))

#endif
