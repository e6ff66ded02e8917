/*
 * Field offsets from the binary's own DWARF, read through libdw. Go's compiler describes every
 * runtime structure there unless the program was linked with -w or stripped.
 */
#ifndef IMAGE_DWARF_TYPES_H
#define IMAGE_DWARF_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "image/elf_file.h"

/*
 * One question: the offset of "sched.sp" in "runtime.g" (path "" asks for the size), or, with
 * is_constant, the value of the constant named by `type`. Both may be alternatives, separated by
 * '|': the first that is there answers.
 */
struct dwarf_query {
	const char *type;
	const char *path;
	bool is_constant;
	bool has_type; /* the answer: whether the type (or constant) itself is there, */
	bool found;    /* and the field in it */
	int64_t value;
};

/* Answers all queries in one pass; queries for types alone are faster, because constants may be
 * anywhere in the DWARF. ERROR_CORRUPT when it is broken. *ret_has_dwarf is false, and nothing
 * found, without DWARF. */
struct error *dwarf_answer(const struct elf_file *elf, struct dwarf_query *queries, size_t count,
			   bool *ret_has_dwarf) must_check;

#endif
