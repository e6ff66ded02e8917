/* enum gospect_unwind, and the data that a method needs. */
#ifndef LIB_UNWIND_H
#define LIB_UNWIND_H

#include <gospect/snapshot.h>

#include "image/image.h"
#include "lib/remark.h"
#include "unwind/method.h"

/* Opens the data that the method needs; the caller closes *ret_frames, which is NULL except for
 * UNWIND_DWARF, when *ret is no longer used. ERROR_USAGE: unknown method. */
struct error *unwind_open(uint32_t method, const struct image *img, struct debug_frame **ret_frames,
			  struct unwinding *ret) must_check;

/* Remarks that the stacks were unwound by another method than the default, if so. */
void unwind_remark(const struct remark *to, uint32_t method);

#endif
