/* The memory of one goroutine's stack, explained word by word. */
#ifndef GOSPECT_STACK_MEMORY_H
#define GOSPECT_STACK_MEMORY_H

#include <gospect/snapshot.h>

GOSPECT_BEGIN

struct gospect_stack_memory;

/*
 * The stack of the goroutine with this id. If the stack moves while it is read, the call reads it
 * again. In a live process it waits up to a second for a running goroutine. GOSPECT_ERROR_FAILED:
 * the goroutine still runs or moves, or does not exist. Arguments and variables need the program's
 * DWARF: a remark says when it has none. `unwind` is an enum gospect_unwind.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_stack_memory_take(struct gospect_target *target, uint64_t goroutine, uint32_t unwind,
			  struct gospect_stack_memory **ret);

/* Takes NULL as well. It may outlive its target. */
GOSPECT_API void gospect_stack_memory_destroy(struct gospect_stack_memory *memory);

struct gospect_stack_word {
	uint64_t address;
	int64_t offset; /* from the topmost word of the stack; not positive */
	uint64_t value;
	const char *explanation; /* "return addr to main.work", "arg n int", "?" */
	const char *in_register; /* NULL, or the name of the register that has this value, which is
				    then not a word of memory */
	uint32_t is_sp;          /* 1: the stack pointer points to it */
	uint32_t is_fp;          /* 1: the frame pointer points to it */
};

/* All words, from the top of the stack down; valid until the memory is destroyed. */
GOSPECT_API const struct gospect_stack_word *const *
gospect_stack_memory_words(const struct gospect_stack_memory *memory, size_t *ret_count);

/* GOSPECT_TEXT: columns, as go-profiler-notes' stackannotate prints them; or GOSPECT_JSON. */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_stack_memory_write(const struct gospect_stack_memory *memory, enum gospect_format format,
			   struct gospect_sink sink);

GOSPECT_END

#endif
