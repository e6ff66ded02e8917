/*
 * The types that a Go program describes to itself (internal/abi.Type): stripped programs have them
 * too. They are found by their names; of a structure, the offsets of its fields are known.
 *
 * The descriptions lie together, between moduledata.types and moduledata.etypes, and are copied
 * once. Every number in them is taken as hostile.
 * Sources: internal/abi/type.go, reflect/type.go, runtime/symtab.go (Go 1.17 to 1.27).
 */
#ifndef IMAGE_TYPE_DATA_H
#define IMAGE_TYPE_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "image/image.h"

struct type_data {
	int minor; /* Go 1.N */
	uint64_t start;
	size_t size;
	uint8_t *bytes;
};

/* Of the main program, Go 1.`minor`. The image has its functions. If the types are not where they
 * should be, there are none. */
struct error *type_data_read(struct target *t, const struct image *img, int minor,
			     struct type_data *ret) must_check;
void type_data_release(struct type_data *types);
#define _cleanup_type_data_ __attribute__((cleanup(type_data_release)))

/*
 * The address of the structure `name` ("http.Request") of a package ("net/http"; also one that is
 * vendored). 0: the program does not have it, or has two of them.
 */
uint64_t type_data_structure(const struct type_data *types, const char *package, const char *name);

/* The address of the type of pointers to it; 0: the program does not have that. */
uint64_t type_data_pointer(const struct type_data *types, uint64_t structure);

/* Where the field is in the structure. False: it has none of that name. */
bool type_data_field(const struct type_data *types, uint64_t structure, const char *field,
		     uint32_t *ret_offset);

#endif
