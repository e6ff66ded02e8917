#include "unwind/method.h"

#include <string.h>

#include "base/array.h"

static const struct {
	const char *name;
	const char *words;
} methods[] = {
	[UNWIND_PCSP] = {"pcsp", "by Go's pcsp tables"},
	[UNWIND_FP] = {"fp", "by frame pointers only"},
	[UNWIND_DWARF] = {"dwarf", "by the program's .debug_frame"},
};

const char *unwind_method_name(enum unwind_method method)
{
	return methods[method].name;
}

const char *unwind_method_words(enum unwind_method method)
{
	return methods[method].words;
}

void unwind_write_mark(enum unwind_method method, FILE *out)
{
	if (method != UNWIND_PCSP)
		fprintf(out, "# stacks unwound %s (--unwind %s)\n\n", methods[method].words,
			methods[method].name);
}

bool unwind_method_named(const char *name, enum unwind_method *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		if (strcmp(methods[i].name, name))
			continue;
		*ret = i;
		return true;
	}
	return false;
}
