#include "lib/why.h"

#include <string.h>

#define MOST_INLINED 64

size_t why_names(const struct code *code, struct stack stack,
		 const char *ret[static WHY_MOST_FRAMES])
{
	size_t count = 0;

	for (size_t i = 0; i < stack.count && count < WHY_MOST_FRAMES; i++) {
		struct go_frame frames[MOST_INLINED];
		size_t n = code_frames(code, stack.pcs[i], frames, MOST_INLINED);

		for (size_t k = 0; k < n && count < WHY_MOST_FRAMES; k++)
			if (!frames[k].wrapper)
				ret[count++] = frames[k].function;
	}
	/* As everywhere, a goroutine ends at its start function. */
	if (count > 1 && !strcmp(ret[count - 1], "runtime.goexit"))
		count--;
	return count;
}

void why_name_creator(const struct code *code, uint64_t go_pc, struct why_numbers *n,
		      struct why_creator *ret)
{
	struct go_frame frames[MOST_INLINED];
	size_t count = go_pc ? code_frames(code, go_pc, frames, MOST_INLINED) : 0;

	ret->function = count ? why_keep(n, frames[0].function) : "";
	ret->file = count ? why_keep(n, frames[0].file) : "";
	ret->line = count ? frames[0].line : 0;
}
