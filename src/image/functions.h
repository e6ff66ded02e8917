/* The function table of one file: for the files of this room alone. */
#ifndef IMAGE_FUNCTIONS_H
#define IMAGE_FUNCTIONS_H

#include "image/image.h"

/* As image_load_functions(), without plugins. */
struct error *functions_load(struct image *img, struct target *t,
			     const struct image_layout *layout) must_check;
/* The same for a file whose bias and moduledata are known. */
struct error *functions_load_mapped(struct image *img, struct target *t, uint64_t moduledata,
				    const struct image_layout *layout) must_check;
void functions_drop(struct image *img);

/* Releases an image without plugins. */
void image_release(struct image *img);

static inline void cleanup_plain_image(struct image **img)
{
	image_release(*img);
}
#define _cleanup_plain_image_ __attribute__((cleanup(cleanup_plain_image)))

#endif
