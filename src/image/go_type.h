/*
 * The types of variables by their layout in memory: trees whose leaves are single values. Pointers
 * are leaves.
 */
#ifndef IMAGE_GO_TYPE_H
#define IMAGE_GO_TYPE_H

#include <stddef.h>
#include <stdint.h>

enum go_kind {
	GO_UNKNOWN,
	GO_BOOL,
	GO_INT,
	GO_UINT,
	GO_FLOAT,
	GO_COMPLEX,
	GO_POINTER, /* maps, channels, functions too */
	GO_STRUCT,  /* strings, slices, interfaces too */
	GO_ARRAY,
};

struct go_member {
	const char *name;
	uint64_t offset;
	const struct go_type *type;
};

struct go_type {
	const char *name; /* as in the source: "int", "*main.T", "[]string" */
	enum go_kind kind;
	uint64_t size;
	struct go_member *members; /* of a structure, in the order of the source */
	size_t count;
	const struct go_type *element; /* of an array */
	uint64_t points_to;            /* of a pointer: for variables_pointee(); 0: not known */
	/* The address in the file at which the runtime keeps this type; 0: it does not, or it is
	 * not known. */
	uint64_t runtime_type;
};

#endif
