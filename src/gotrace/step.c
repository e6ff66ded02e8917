#include "gotrace/step.h"

#include <stddef.h>

static const char *const arguments[OP_COUNT] = {
	[OP_PROCS_CHANGE] = "nk",
	[OP_PROC_START] = "nn",
	[OP_PROC_STOP] = "",
	[OP_PROC_STEAL] = "nnn",
	[OP_PROC_STATUS] = "nn",
	[OP_GO_CREATE] = "nfk",
	[OP_GO_CREATE_SYSCALL] = "n",
	[OP_GO_START] = "nn",
	[OP_GO_DESTROY] = "",
	[OP_GO_DESTROY_SYSCALL] = "",
	[OP_GO_STOP] = "tk",
	[OP_GO_BLOCK] = "tk",
	[OP_GO_UNBLOCK] = "nnk",
	[OP_GO_SYSCALL_BEGIN] = "nk",
	[OP_GO_SYSCALL_END] = "",
	[OP_GO_SYSCALL_END_BLOCKED] = "",
	[OP_GO_STATUS] = "nnn",
	[OP_STW_BEGIN] = "tk",
	[OP_STW_END] = "",
	[OP_GC_ACTIVE] = "n",
	[OP_GC_BEGIN] = "nk",
	[OP_GC_END] = "n",
	[OP_SWEEP_ACTIVE] = "n",
	[OP_SWEEP_BEGIN] = "k",
	[OP_SWEEP_END] = "nn",
	[OP_ASSIST_ACTIVE] = "n",
	[OP_ASSIST_BEGIN] = "k",
	[OP_ASSIST_END] = "",
	[OP_HEAP_ALLOC] = "n",
	[OP_HEAP_GOAL] = "n",
	[OP_GO_LABEL] = "t",
	[OP_TASK_BEGIN] = "nntk",
	[OP_TASK_END] = "nk",
	[OP_REGION_BEGIN] = "ntk",
	[OP_REGION_END] = "ntk",
	[OP_LOG] = "nttk",
	[OP_GO_SWITCH] = "nn",
	[OP_GO_SWITCH_DESTROY] = "nn",
	[OP_GO_CREATE_BLOCKED] = "nfk",
	[OP_GO_STATUS_STACK] = "nnnk",
};

const char *trace_op_arguments(unsigned int op)
{
	return op < OP_COUNT ? arguments[op] : NULL;
}
