#include "lib/unwind.h"

_Static_assert((int)GOSPECT_UNWIND_PCSP == (int)UNWIND_PCSP &&
		       (int)GOSPECT_UNWIND_FP == (int)UNWIND_FP &&
		       (int)GOSPECT_UNWIND_DWARF == (int)UNWIND_DWARF,
	       "one is handed on as the other");

struct error *unwind_open(uint32_t method, const struct image *img, struct debug_frame **ret_frames,
			  struct unwinding *ret)
{
	struct error *err = NULL;

	if (method > UNWIND_DWARF)
		return error_format(ERROR_USAGE,
				    "invalid unwinding method %u; see enum gospect_unwind", method);
	if (method == UNWIND_DWARF)
		err = debug_frame_open(img, ret_frames);
	if (!err)
		*ret = (struct unwinding){(enum unwind_method)method, *ret_frames};
	return err;
}

void unwind_remark(const struct remark *to, uint32_t method)
{
	enum unwind_method by = (enum unwind_method)method;

	if (by != UNWIND_PCSP)
		remark(to, "stacks are unwound %s (--unwind %s)", unwind_method_words(by),
		       unwind_method_name(by));
}
