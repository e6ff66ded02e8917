/*
 * The plugins of a process (-buildmode=plugin): each is a module of its own, with a function table
 * in its own file, in the list that begins at runtime.firstmoduledata (runtime/symtab.go). Its
 * functions are looked up through the image's table as the program's own; one that is opened later
 * is found when a pc is in no module that is known.
 */
#ifndef IMAGE_PLUGINS_H
#define IMAGE_PLUGINS_H

#include "image/image.h"

struct plugins;

/* Follows the list from the image's moduledata on, now and later; `t` must outlive it. A module
 * whose file is unavailable is left out. */
struct error *plugins_open(struct image *img, struct target *t, const struct image_layout *layout,
			   struct plugins **ret) must_check;
void plugins_close(struct plugins *p);

/* The i-th plugin that was read; NULL behind the last. */
const struct image *plugins_get(const struct plugins *p, size_t i);

#endif
