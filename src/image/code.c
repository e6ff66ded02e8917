#include "image/code.h"

size_t code_frames(const struct code *code, uint64_t stack_pc, struct go_frame *ret, size_t max)
{
	size_t count = pclntab_frames(code->functions, stack_pc, ret, max);
	const char *function, *file;

	if (count || !max || !code->modules || stack_pc_is_pseudo(stack_pc))
		return count;
	function = modules_function(code->modules, stack_pc_lookup(stack_pc), &file);
	if (!function)
		return 0;
	*ret = (struct go_frame){.function = function, .file = file};
	return 1;
}
