/*
 * Request entry points, and where each begins and returns: probe sites. Nothing
 * is written here.
 */
#ifndef HOOKS_ENTRY_POINTS_H
#define HOOKS_ENTRY_POINTS_H

#include "hooks/hooks.h"
#include "hooks/injection.h"

enum { ENTRY_POINTS_MOST = 32 };

/*
 * Adds to `hooks` those of image/handlers.h, of functions that match options->root (NULL: none),
 * and those at which more of a request becomes known (hooks/request_functions.h). Without clients
 * and the latter with options->no_names. One that cannot be hooked, or calls of which are inlined,
 * is left out, with a line in hooks->left_out. ERROR_FAILED: nothing matches the root, or more than
 * ENTRY_POINTS_MOST do.
 */
struct error *entry_points_find(struct target *t, const struct image *img,
				const struct golayout *lay, const struct inject_options *options,
				struct hooks *hooks) must_check;

#endif
