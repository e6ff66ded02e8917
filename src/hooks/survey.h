/* The facts about a target before it has hooks: how its threads can be made to make system calls,
 * and the original code at probe sites of an earlier gospect (inject/plan.h). */
#ifndef HOOKS_SURVEY_H
#define HOOKS_SURVEY_H

#include "golayout/golayout.h"
#include "image/image.h"
#include "inject/plan.h"
#include "target/target.h"

/* ERROR_UNSUPPORTED: the program has no such code. */
struct error *survey_make(struct target *t, const struct image *img, const struct golayout *lay,
			  struct survey *ret) must_check;

/* The last part alone: each probe site in the head of a code page, if the original bytes in the
 * head are those of the program's file. */
struct error *survey_originals(struct target *t, const struct image *img,
			       struct survey *ret) must_check;

#endif
