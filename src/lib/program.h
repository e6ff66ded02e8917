/* Facts about a Go program that any verb may print. */
#ifndef LIB_PROGRAM_H
#define LIB_PROGRAM_H

#include "base/strbuf.h"
#include "golayout/golayout.h"
#include "image/image.h"
#include "target/target.h"

/* "dynamic,pie,cgo,stripped" */
void program_describe_build(const struct image *img, struct strbuf *sb);

struct error *program_count_goroutines(struct target *t, const struct image *img,
				       const struct golayout *lay, long *ret) must_check;

#endif
