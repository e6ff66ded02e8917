#include "image/code.h"

static size_t kernel_frame(const struct code *code, uint64_t stack_pc, struct go_frame *ret)
{
	if (!code->kernel)
		return 0;
	*ret = (struct go_frame){
		.function = kernel_symbols_function(code->kernel, stack_pc_lookup(stack_pc)),
		.file = "[kernel]",
	};
	return 1;
}

size_t code_frames(const struct code *code, uint64_t stack_pc, struct go_frame *ret, size_t max)
{
	size_t count = pclntab_frames(code->functions, stack_pc, ret, max);
	const char *function, *file;

	if (max && stack_pc_is_kernel(stack_pc))
		return kernel_frame(code, stack_pc, ret);
	if (count || !max || !code->modules || stack_pc_is_pseudo(stack_pc))
		return count;
	function = modules_function(code->modules, stack_pc_lookup(stack_pc), &file);
	if (!function)
		return 0;
	*ret = (struct go_frame){.function = function, .file = file};
	return 1;
}
