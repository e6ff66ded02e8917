/* The arguments of a frame as the runtime prints them: runtime/traceback.go, printArgs(). */
#ifndef DUMP_ARGUMENTS_H
#define DUMP_ARGUMENTS_H

#include "base/strbuf.h"
#include "image/pclntab.h"
#include "unwind/stacks.h"

/* `argp` is where the function's arguments begin. False: some are not in the copy of the stack. */
bool arguments_add(struct strbuf *sb, const struct argument_info *info,
		   const struct stack_memory *memory, uint64_t argp);

#endif
