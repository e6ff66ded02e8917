/*
 * Explains each word of a goroutine's stack: return addresses and saved frame pointers, by exact
 * unwinding; arguments and local variables, by the program's DWARF; pointers into the stack itself.
 * It works on a copy of the stack and knows nothing of the process.
 */
#ifndef ANNOTATE_ANNOTATE_H
#define ANNOTATE_ANNOTATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "image/dwarf_variables.h"
#include "image/pclntab.h"
#include "unwind/frames.h"

struct annotate_input {
	const struct pclntab *functions;
	enum machine machine;
	struct stack_memory memory;
	const struct frames *frames; /* of this memory */
	uint64_t stack_end;          /* stack.hi: offsets are counted from the word below it */
	uint64_t fp;                 /* the frame pointer register; 0: not known */
	/* The general registers of frame 0, by DWARF's numbers; NULL: not known. */
	const uint64_t *general;
	size_t general_count;
	/* As variables_at(), for a pc of the running program; NULL: nothing is known. */
	struct error *(*variables)(void *arg, uint64_t pc, bool is_return,
				   const struct variable **ret, size_t *ret_count);
	void *arg;
};

struct annotate_row {
	uint64_t address;
	int64_t offset; /* from the stack's topmost word: 0, -8 ... */
	uint64_t value;
	bool is_sp; /* the stack pointer points here */
	bool is_fp; /* the frame pointer register does */
	/* The register of a variable that has no address; else NULL. */
	const char *in_register;
	const char *text; /* "?" when nothing is known; valid until the next call */
};

struct annotation;

/* The only error is ERROR_NO_MEMORY. Keeps what *input points to. */
struct error *annotation_create(const struct annotate_input *input,
				struct annotation **ret) must_check;
void annotation_destroy(struct annotation *a);

/*
 * The next row, from the top of the stack down to SP; then one for each variable of frame 0 that is
 * in a register. false: there are no more.
 */
bool annotation_next(struct annotation *a, struct annotate_row *ret);

static inline void cleanup_annotation(struct annotation **a)
{
	annotation_destroy(*a);
}
#define _cleanup_annotation_ __attribute__((cleanup(cleanup_annotation)))

#endif
