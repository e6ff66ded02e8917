/* The name of the type of a value in an interface, from the runtime's own description of it. */
#ifndef DUMP_TYPE_NAME_H
#define DUMP_TYPE_NAME_H

#include "base/strbuf.h"
#include "image/image.h"

struct type_names {
	struct target *t;
	uint64_t types; /* where the descriptions of the program begin; 0: names are not known */
	uint64_t etypes;
};

/* Needs the DWARF of the program or of its unstripped file. */
struct error *type_names_open(struct target *t, const struct image *img,
			      struct type_names *ret) must_check;
/* "*os.File", for a runtime._type at this address. False: it is not known. */
bool type_names_add(const struct type_names *names, uint64_t type, struct strbuf *sb);

#endif
