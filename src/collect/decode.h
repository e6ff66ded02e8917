/* The agent's records made into events: names for numbers, and stacks with all their frames. */
#ifndef COLLECT_DECODE_H
#define COLLECT_DECODE_H

#include <stddef.h>
#include <stdint.h>

#include "agent/abi.h"
#include "base/error.h"
#include "collect/drain.h"
#include "collect/stack_cache.h"
#include "collect/target_labels.h"
#include "golayout/golayout.h"
#include "gotrace/event.h"
#include "gotrace/texts.h"
#include "image/image.h"
#include "target/target.h"
#include "unwind/stacks.h"

/* A record is at most so many events. */
#define DECODE_MAX_EVENTS 3

struct decoder;

/* Keeps its arguments. Reads the wait reasons from the target now, and never reads it again. */
struct error *decoder_create(struct target *t, const struct image *img, const struct golayout *lay,
			     const struct stack_cache *cache, struct decoder **ret) must_check;
void decoder_destroy(struct decoder *d);

/* Their times are `ns`. */
struct error *decoder_events(struct decoder *d, const struct drain_record *r, uint64_t ns,
			     struct trace_event ret[DECODE_MAX_EVENTS],
			     size_t *ret_count) must_check;

/* A stack as it is in the target's memory, as events have it; STACK_NONE: there is no room. */
struct error *decoder_parked_stack(struct decoder *d, const uint64_t *words, size_t count,
				   uint32_t *ret) must_check;
/* The text of one of the runtime's wait reasons. */
uint32_t decoder_reason(const struct decoder *d, uint8_t reason);

/* The texts that numbers in events refer to. */
struct texts *decoder_texts(struct decoder *d);
struct stacks *decoder_stacks(struct decoder *d);
struct labels *decoder_labels(struct decoder *d);

/* Marks the texts that later events may have though no record brings them. */
void decoder_mark_texts(struct decoder *d);

static inline void cleanup_decoder(struct decoder **d)
{
	decoder_destroy(*d);
}
#define _cleanup_decoder_ __attribute__((cleanup(cleanup_decoder)))

#endif
