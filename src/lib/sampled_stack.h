/* The stack of a goroutine that runs in a live process, from a sample of its thread. */
#ifndef LIB_SAMPLED_STACK_H
#define LIB_SAMPLED_STACK_H

#include "goroutine/goroutine_snapshot.h"
#include "lib/target_handle.h"

/*
 * Samples the threads of the target until one has run this goroutine on its own stack, and fills
 * *s. Does not stop the target. ERROR_FAILED says why there is no sample; a remark says what the
 * sample is.
 */
struct error *sampled_stack_take(struct gospect_target *t, struct goroutine_set *set,
				 struct goroutine_snapshot *s) must_check;

#endif
