/* A snapshot of a Go program's memory (inject/snapshot.h): asks the surgeon for it. */
#ifndef HOOKS_TAKE_SNAPSHOT_H
#define HOOKS_TAKE_SNAPSHOT_H

#include "golayout/golayout.h"
#include "image/image.h"
#include "inject/surgeon.h"
#include "target/target.h"

struct memory_snapshot_taken;

/* What it will cost the target; touches nothing. */
struct error *memory_snapshot_expect(const struct surgeon_line *line,
				     struct snapshot_expectation *ret) must_check;

/* *ret_target reads it, and is closed first. `t` must live on. `line` NULL: by this process. */
struct error *memory_snapshot_take(struct target *t, const struct image *img,
				   const struct golayout *lay, const struct surgeon_line *line,
				   const struct snapshot_limits *limits, struct target **ret_target,
				   struct memory_snapshot_taken **ret) must_check;

/* The target gets its copy back. *ret_result: what it did cost, also with an error. NULL is
 * allowed: nothing is done. */
struct error *memory_snapshot_give_back(struct memory_snapshot_taken *s,
					struct snapshot_result *ret_result) must_check;

#endif
