/* Words of variables in words: for the files of this room alone. */
#ifndef ANNOTATE_DESCRIBE_H
#define ANNOTATE_DESCRIBE_H

#include "base/strbuf.h"
#include "image/dwarf_variables.h"

/*
 * What of the variable lies in eight bytes that begin `at` bytes into it (negative: so many bytes
 * before it). The first word of a variable says its name and type, "arg a int", and what is in this
 * word, if that is not all; the others say which part they are, "arg s.len int". Values are said
 * where the word itself does not show them: what is smaller, negative, or no integer. *ret_pointer
 * is whether the word is one pointer.
 */
void describe_variable(struct strbuf *sb, const struct variable *v, int64_t at, uint64_t word,
		       bool *ret_pointer);

#endif
