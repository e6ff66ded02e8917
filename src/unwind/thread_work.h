/*
 * The purpose of CPU time outside the user's goroutines. Such stacks get a root frame that names
 * it.
 */
#ifndef UNWIND_THREAD_WORK_H
#define UNWIND_THREAD_WORK_H

#include "image/pclntab.h"
#include "unwind/stacks.h"

/* The root of the stack of a thread that works for no goroutine: STACK_PC_IDLE where it looks for
 * work, STACK_PC_SCHEDULER elsewhere in the runtime, STACK_PC_OUTSIDE when it is not Go's. */
enum stack_pc work_of_thread(const struct pclntab *functions, const struct stack *stack);

/* The root of the stack of one of the runtime's own goroutines: STACK_PC_GC or STACK_PC_RUNTIME. */
enum stack_pc work_of_goroutine(const struct pclntab *functions, const struct stack *stack);

/* The number of the stack with this root. */
struct error *work_mark(struct stacks *stacks, uint32_t stack, enum stack_pc root,
			uint32_t *ret) must_check;

#endif
