/* enum gospect_unwind, and what a way to unwind needs. */
#ifndef LIB_UNWIND_H
#define LIB_UNWIND_H

#include <gospect/snapshot.h>

#include "image/image.h"
#include "lib/remark.h"
#include "unwind/method.h"

/* What the method needs of the program; the caller closes *ret_frames, which is NULL but for
 * UNWIND_DWARF, once *ret is no longer used. ERROR_USAGE: there is no such method. */
struct error *unwind_open(uint32_t method, const struct image *img, struct debug_frame **ret_frames,
			  struct unwinding *ret) must_check;

/* Remarks that the stacks are not what gospect usually shows, if so. */
void unwind_remark(const struct remark *to, uint32_t method);

#endif
