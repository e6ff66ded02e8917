/*
 * Chooses free memory for trampoline pages: the targets of jumps whose last byte must not change
 * (inject/code_page.h).
 */
#ifndef HOOKS_TRAMPOLINE_H
#define HOOKS_TRAMPOLINE_H

#include <stdbool.h>

#include "hooks/stub.h"
#include "target/target.h"

struct trampolines {
	uint64_t pages[CODE_TRAMPOLINE_PAGES]; /* 0: no more */
	size_t used[CODE_TRAMPOLINE_PAGES];    /* jumps on them */
};

/* Finds room for each of the probe sites that needs it, and sets its `jump`. False: there is none
 * for one of them, and *all is unchanged. */
bool trampolines_take(struct trampolines *all, const struct target_maps *maps,
		      struct code_site *sites, size_t count);

#endif
