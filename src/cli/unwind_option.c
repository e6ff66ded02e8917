#include "cli/unwind_option.h"

enum { KEY_UNWIND = 0x5200 };

static const struct argp_option options[] =
	{{"unwind", KEY_UNWIND, "METHOD", 0,
	  "How callers are found: pcsp (exact; the default), or, to compare, fp (frame pointers "
	  "alone) or dwarf (.debug_frame)",
	  4},
	 {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	if (key != KEY_UNWIND)
		return ARGP_ERR_UNKNOWN;
	if (!unwind_method_named(arg, state->input))
		return wrong_option(state,
				    "there is no way '%s' to unwind; there are pcsp, fp and dwarf",
				    arg);
	return 0;
}

const struct argp unwind_argp = {.options = options, .parser = parse};

struct error *unwind_open(enum unwind_method method, const struct image *img,
			  struct debug_frame **ret_frames, struct unwinding *ret)
{
	struct error *err = method == UNWIND_DWARF ? debug_frame_open(img, ret_frames) : NULL;

	if (!err)
		*ret = (struct unwinding){method, *ret_frames};
	return err;
}

void unwind_say(enum unwind_method method)
{
	if (method != UNWIND_PCSP)
		say("stacks are found %s (--unwind %s)", unwind_method_words(method),
		    unwind_method_name(method));
}
