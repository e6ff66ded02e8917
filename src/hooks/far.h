/*
 * Where the jumps lead that must keep their last byte (inject/code.h): pages of our own, chosen in
 * memory that is free.
 */
#ifndef HOOKS_FAR_H
#define HOOKS_FAR_H

#include <stdbool.h>

#include "hooks/stub.h"
#include "target/target.h"

struct far {
	uint64_t pages[CODE_FAR_PAGES]; /* 0: no more */
	size_t used[CODE_FAR_PAGES];    /* jumps on them */
};

/* Finds room for each of the places that wants it, and sets its `jump`. false: there is none for
 * one of them, and nothing has changed in `far`. */
bool far_take(struct far *far, const struct target_maps *maps, struct code_place *places,
	      size_t count);

#endif
