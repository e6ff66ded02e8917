/*
 * The values of variables, as text: numbers, strings and slices up to 64 bytes, structures and
 * arrays up to a limit; pointers, maps, channels, interfaces and functions in a short form. What
 * pointers lead to is read from the target when the text is made. All of it is bounded and
 * printable, whatever the target holds.
 */
#ifndef DUMP_SHOW_VALUE_H
#define DUMP_SHOW_VALUE_H

#include "dump/type_name.h"
#include "image/dwarf_variables.h"
#include "unwind/stacks.h"

/* The most bytes of a variable that are looked at. */
#define SHOWN_BYTES 1024

struct value_reader {
	struct target *t;
	const struct image *img;
	struct variables *variables; /* types that pointers lead to */
	struct type_names names;
	const struct stack_memory *stack; /* read from this copy instead, where it is in there */
};

/* A variable's bytes, of which some may be unknown. */
struct value_bytes {
	uint8_t data[SHOWN_BYTES];
	bool known[SHOWN_BYTES];
	size_t size;
};

/* Reads memory of the target. */
bool value_read(const struct value_reader *r, uint64_t address, void *to, size_t size);
/* "?" where bytes are unknown. */
void value_show(struct strbuf *sb, const struct value_reader *r, const struct go_type *type,
		const struct value_bytes *bytes);

#endif
