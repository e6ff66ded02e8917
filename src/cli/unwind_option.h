/* --unwind METHOD, of the verbs that show stacks. */
#ifndef CLI_UNWIND_OPTION_H
#define CLI_UNWIND_OPTION_H

#include "cli/cli.h"
#include "image/image.h"
#include "unwind/method.h"

/* A child parser whose input is enum unwind_method. */
extern const struct argp unwind_argp;

/* What the method needs of the program; the caller closes *ret_frames, which is NULL but for
 * UNWIND_DWARF, once *ret is no longer used. */
struct error *unwind_open(enum unwind_method method, const struct image *img,
			  struct debug_frame **ret_frames, struct unwinding *ret) must_check;

/* Says that the stacks are not what gospect usually shows, if so. */
void unwind_say(enum unwind_method method);

#endif
