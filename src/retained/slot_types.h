/* What a pointer in a variable leads to, by the type of the variable in DWARF. */
#ifndef RETAINED_SLOT_TYPES_H
#define RETAINED_SLOT_TYPES_H

#include "image/dwarf_variables.h"
#include "retained/type_table.h"

struct slot_types {
	struct target *t;
	uint64_t bias;               /* of the program */
	struct variables *variables; /* NULL: there is no DWARF */
	struct runtime_types *types;
	struct type_table *table;
};

/* The number of the type of the object that the word at `slot` of the target leads to. The word is
 * at `offset` of a variable of this type. TYPE_UNKNOWN: not known. */
struct error *slot_type(const struct slot_types *s, const struct go_type *type, uint64_t offset,
			uint64_t slot, uint32_t *ret) must_check;

/* The type of what a pointer, or the pointer of a slice, at `offset` of a variable leads to; NULL:
 * it is not known. */
const struct go_type *slot_pointee(const struct slot_types *s, const struct go_type *type,
				   uint64_t offset, bool *ret_is_slice);

/* ".cache", ".shards[].items": the members at this offset of a variable of this type. */
void slot_add_members(const struct go_type *type, uint64_t offset, struct strbuf *ret);

/* As slot_type(), by a runtime type. */
struct error *slot_type_by_runtime(const struct slot_types *s, const struct runtime_type *type,
				   uint64_t offset, uint64_t slot, uint32_t *ret) must_check;

#endif
