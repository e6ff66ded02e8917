#include "cli/unwind_option.h"

#include <gospect/snapshot.h>
#include <string.h>

enum { KEY_UNWIND = 0x5200 };

static const struct argp_option options[] =
	{{"unwind", KEY_UNWIND, "METHOD", 0,
	  "Find callers by pcsp (exact, the default), fp (frame pointers) or dwarf (.debug_frame)",
	  4},
	 {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	static const char *const names[] = {[GOSPECT_UNWIND_PCSP] = "pcsp",
					    [GOSPECT_UNWIND_FP] = "fp",
					    [GOSPECT_UNWIND_DWARF] = "dwarf"};
	uint32_t *method = state->input;

	if (key != KEY_UNWIND)
		return ARGP_ERR_UNKNOWN;
	for (uint32_t i = 0; i <= GOSPECT_UNWIND_DWARF; i++) {
		if (strcmp(arg, names[i]))
			continue;
		*method = i;
		return 0;
	}
	return wrong_option(state, "unknown unwinding method '%s'; use pcsp, fp or dwarf", arg);
}

const struct argp unwind_argp = {.options = options, .parser = parse};
