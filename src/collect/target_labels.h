/*
 * The target's sets of labels as texts: those that the agent has copied, and those that are read
 * from outside, because the agent might not or tracing had not begun.
 */
#ifndef COLLECT_TARGET_LABELS_H
#define COLLECT_TARGET_LABELS_H

#include "agent/abi.h"
#include "collect/drain.h"
#include "collect/label_reader.h"
#include "collect/unread.h"
#include "golayout/golayout.h"
#include "gotrace/texts.h"
#include "labels/label_sets.h"
#include "target/target.h"

struct labels {
	struct target *t;
	const struct golayout *lay;
	struct texts *texts;
	struct label_sets sets;              /* of those read from outside */
	uint32_t (*known)[AGENT_LABEL_SETS]; /* of each slot: texts by the agent's numbers */
	uint32_t slots;
	uint64_t cut;     /* labels that were longer than is kept, or too many */
	uint64_t dropped; /* sets that are not known: no room, or they could not be read */
	/* Sets that gospect read for the agent, and whose records are still to come. */
	struct unread_set *read_early;
};

/* Keeps its arguments. */
struct error *labels_init(struct labels *l, struct target *t, const struct golayout *lay,
			  uint32_t slots, struct texts *texts) must_check;
void labels_deinit(struct labels *l);

/* The text of the set that a record of kind RECORD_LABELS ... is about; 0: none, or not known. */
struct error *labels_of_record(struct labels *l, const struct drain_record *r,
			       uint32_t *ret) must_check;

/* Takes sets that were read when records were collected which are to come. */
void labels_add_read(struct labels *l, struct unread_set *list);

/* Marks the sets that the agent may say by their numbers. */
void labels_mark_texts(struct labels *l);

/* Reads the sets of at most LABELS_BATCH goroutines into their texts. */
struct error *labels_read(struct labels *l, struct labelled *items, size_t count) must_check;

#endif
