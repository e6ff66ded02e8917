/* What is known of a target before its hooks are: how its threads are made to make system calls,
 * and what its code was before another gospect has changed it (inject/plan.h). */
#ifndef HOOKS_SURVEY_H
#define HOOKS_SURVEY_H

#include "golayout/golayout.h"
#include "image/image.h"
#include "inject/plan.h"
#include "target/target.h"

/* ERROR_UNSUPPORTED: the program has no such code. */
struct error *survey_make(struct target *t, const struct image *img, const struct golayout *lay,
			  struct survey *ret) must_check;

/* Its last part alone: each probe site that the head of a code page names, if what the head says of
 * it is what the program's file has there. */
struct error *survey_originals(struct target *t, const struct image *img,
			       struct survey *ret) must_check;

#endif
