/*
 * Functions that requests are under, and where each begins and returns: places for hooks. Nothing
 * is written here.
 */
#ifndef HOOKS_ROOTS_H
#define HOOKS_ROOTS_H

#include <regex.h>

#include "hooks/hooks.h"

enum { ROOTS_MOST = 32 };

/*
 * Adds to `hooks` those of requests/handlers.h, and of functions that match `root` (NULL: none).
 * One that cannot be hooked, or calls of which are inlined, is left out, with a line in
 * hooks->left_out. ERROR_FAILED: nothing matches `root`, or more than ROOTS_MOST do.
 */
struct error *roots_find(struct target *t, const struct image *img, const regex_t *root,
			 struct hooks *hooks) must_check;

#endif
