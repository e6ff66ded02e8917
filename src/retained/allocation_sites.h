/*
 * Where objects of unknown type were allocated, as far as the runtime's heap profile knows it: it
 * has the stack of one allocation in 512 KiB, and of most large objects.
 */
#ifndef RETAINED_ALLOCATION_SITES_H
#define RETAINED_ALLOCATION_SITES_H

#include "retained/object_graph.h"

struct allocation_site {
	uint32_t type;        /* of the objects: in the type table */
	const char *function; /* the innermost one that is not the runtime's */
	uint32_t count;       /* of sampled objects */
};

struct allocation_sites {
	struct allocation_site *items; /* by type; of each, those with most objects first */
	size_t count;
};

/* `types`: by rank. */
struct error *allocation_sites_find(struct object_graph *g, const uint32_t *types,
				    struct allocation_sites *ret) must_check;
void allocation_sites_release(struct allocation_sites *s);

#endif
