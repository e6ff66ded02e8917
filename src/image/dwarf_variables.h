/*
 * The arguments and local variables of a program's functions, out of its DWARF (4, or 5 from Go
 * 1.25 on): what they are called, of which type they are, and where they lie while the program is
 * at some address.
 */
#ifndef IMAGE_DWARF_VARIABLES_H
#define IMAGE_DWARF_VARIABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "image/elf_file.h"
#include "image/go_type.h"

/* A variable, or the part of one that lies in one place: an optimized program may keep a string's
 * pointer on the stack and its length in a register. */
struct variable {
	const char *name;
	const struct go_type *type;
	const char *inlined; /* for a variable of an inlined call: its function, else NULL */
	bool is_argument;    /* or a result */
	bool in_register;
	uint8_t number; /* of the register, DWARF's */
	int64_t place;  /* on the stack, from the frame's CFA on */
	uint64_t from;  /* where in the variable this part begins */
	uint64_t size;
	int line; /* where it is declared; 0: not known */
};

struct variables;

/* *ret is NULL when the file has no DWARF. ERROR_CORRUPT: it is broken. Decompresses the needed
 * parts: 0.3 s for a program of 150 MB. `elf` must outlive it. */
struct error *variables_open(const struct elf_file *elf, struct variables **ret) must_check;
void variables_close(struct variables *v);

/*
 * The variables that exist at a pc of the file, of the function there and of the calls inlined
 * there; valid until variables_close(). For a return address they are those of the call before it.
 * A variable in a register is then where the code behind the call expects it, because a call spoils
 * all registers. The only error is ERROR_NO_MEMORY: broken entries are left out.
 */
struct error *variables_at(struct variables *v, uint64_t pc, bool is_return,
			   const struct variable **ret, size_t *ret_count) must_check;

/* The type that a pointer points to; NULL: not known. Valid until variables_close(). */
const struct go_type *variables_pointee(struct variables *v, const struct go_type *pointer);

/*
 * Calls `found` for each variable that lies at a fixed address of the file, in any order. Broken
 * entries are left out. Takes 1 s for a program of 150 MB.
 */
struct error *variables_globals(struct variables *v,
				bool (*found)(void *arg, const char *name, uint64_t address,
					      const struct go_type *type),
				void *arg) must_check;

/* The number of addresses for which the search for variables was cut short: DWARF may make each
 * cost any amount of time. */
size_t variables_given_up(const struct variables *v);

static inline void cleanup_variables(struct variables **v)
{
	variables_close(*v);
}
#define _cleanup_variables_ __attribute__((cleanup(cleanup_variables)))

#endif
