/* Types out of DWARF, each made once: for the files of this room alone. */
#ifndef IMAGE_GO_TYPES_H
#define IMAGE_GO_TYPES_H

#include <elfutils/libdw.h>

#include "base/map.h"
#include "image/go_type.h"

struct go_types {
	struct map by_offset; /* of the entry in .debug_info -> struct go_type * */
	struct go_type **items;
	size_t count;
	size_t capacity;
};

/*
 * The type of an entry that has one (a variable, a member). A missing or circular type is named "?"
 * and is of kind GO_UNKNOWN; a broken tree may lead back to itself. NULL: no memory.
 */
const struct go_type *go_types_of(struct go_types *types, Dwarf_Die *entry);
/* The type with the entry at this offset; NULL: none, or no memory. */
const struct go_type *go_types_at(struct go_types *types, Dwarf *dwarf, Dwarf_Off offset);
void go_types_release(struct go_types *types);

#endif
