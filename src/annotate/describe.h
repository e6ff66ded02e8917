/* Describes the words of variables: for the files of this room alone. */
#ifndef ANNOTATE_DESCRIBE_H
#define ANNOTATE_DESCRIBE_H

#include "base/strbuf.h"
#include "image/dwarf_variables.h"

/*
 * Describes the part of the variable that lies in eight bytes, `at` bytes into it (negative: so
 * many bytes before it). The first word of a variable has its name and type, "arg a int", and the
 * part, if this word is not all of it. The others name the part, "arg s.len int". A value is
 * printed where the word does not show it: smaller, negative or not an integer. *ret_pointer is
 * whether the word is one pointer.
 */
void describe_variable(struct strbuf *sb, const struct variable *v, int64_t at, uint64_t word,
		       bool *ret_pointer);

#endif
