/* A goroutine's labels (runtime/pprof), copied within the target. Part of the agent. */
#ifndef AGENT_AGENT_LABELS_H
#define AGENT_AGENT_LABELS_H

#include "agent/abi.h"

struct agent_label_set {
	uint64_t hash;   /* of the bytes; never 0 */
	uint32_t size;   /* bytes in slot->labels, as in RECORD_LABELS; 0: no label */
	uint32_t cut;    /* labels that were cut or left out */
	uint32_t unread; /* some of it lies where it may not be read: then it counts for nothing */
};

/*
 * Copies the set at g.labels' value into slot->labels. The function reads nothing outside of
 * shared->readable, and no more than the limits in agent/abi.h permit.
 *
 * Go 1.17 to 1.23: a pointer to a map[string]string (runtime/map.go: hmap, bmap); from 1.24 on to a
 * slice of {key, value} (internal/runtime/pprof/label). A goroutine's set is not changed, only
 * replaced, and lives as long as the goroutine has it: so it stays while it is copied.
 */
void agent_labels_copy(struct agent_slot *slot, const struct agent_shared *shared, uint64_t pointer,
		       struct agent_label_set *ret) __attribute__((visibility("hidden")));

#endif
