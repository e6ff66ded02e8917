/*
 * The stacks of goroutines that did not run when tracing began, with their wait reasons and how
 * long they had waited. They are read while the program runs on, as dump reads them: a stack counts
 * only if its goroutine did not move meanwhile.
 */
#ifndef COLLECT_STACKS_AT_START_H
#define COLLECT_STACKS_AT_START_H

#include <stdbool.h>

#include "base/error.h"
#include "collect/decode.h"
#include "collect/states_at_start.h"
#include "golayout/golayout.h"
#include "image/image.h"
#include "target/target.h"

struct stacks_at_start;

/* Keeps its arguments. `start_ns`: of CLOCK_MONOTONIC, when tracing began. */
struct error *stacks_at_start_open(struct target *t, const struct image *img,
				   const struct golayout *lay, struct decoder *decoder,
				   struct snapshot *snapshot, uint64_t start_ns,
				   struct stacks_at_start **ret) must_check;
/* Puts stacks into the snapshot's goroutines, for about so long; call it until *ret_done. */
struct error *stacks_at_start_read(struct stacks_at_start *s, uint64_t ns,
				   bool *ret_done) must_check;
void stacks_at_start_close(struct stacks_at_start *s);

#endif
