/* What `gospect dump` does with a target, into nowhere. */
#ifndef FUZZ_SHOWING_H
#define FUZZ_SHOWING_H

#include "golayout/golayout.h"

/* Collects all goroutines and writes them in every form. How many there were. */
size_t show(struct target *t, const struct image *img, const struct golayout *lay);

#endif
