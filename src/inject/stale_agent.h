/*
 * A stale agent in a process, found by the names of mappings and descriptors, and by the head of
 * the code page.
 */
#ifndef INJECT_STALE_AGENT_H
#define INJECT_STALE_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "inject/code_page.h"
#include "inject/plan.h"
#include "target/target.h"

struct stale_range {
	uint64_t address;
	uint64_t size;
};

struct stale_agent {
	bool has_head; /* of a code page */
	struct code_head head;
	bool patched;               /* a probe site has our jump */
	struct stale_range *ranges; /* to unmap */
	size_t range_count, range_capacity;
	int *descriptors; /* to close, in the target */
	size_t descriptor_count, descriptor_capacity;
	bool has_claim;      /* of a gospect that is gone */
	pid_t holder;        /* the gospect that is at work there: its pid in its namespace; or 0 */
	bool holder_is_here; /* that is ours */
	bool holder_cleans;  /* and is gone in a moment */
};

/*
 * The target may have made mappings of these names, so the head is checked against what gospect
 * could have written: its sizes and addresses lie in mappings of those names, and what its probe
 * sites had before is among `originals`. ERROR_DENIED when something is not so. Without our own
 * claim (inject/claim.h), which is at `own`; 0: there is none yet.
 */
struct error *stale_agent_find(struct target *t, const struct originals *originals, uint64_t own,
			       struct stale_agent *ret) must_check;
/* The part of it that trusts nothing: adds what lies in these mappings to *l. */
struct error *stale_agent_find_in_maps(struct target *t, const struct originals *originals,
				       const struct target_maps *maps, uint64_t own,
				       struct stale_agent *l) must_check;
/* Reads the head of the first code page, to learn the original bytes of its probe sites.
 * ERROR_FAULT: there is none. */
struct error *stale_agent_read_head(struct target *t, const struct target_maps *maps,
				    struct code_head *ret) must_check;
void stale_agent_release(struct stale_agent *l);
#define _cleanup_stale_agent_ __attribute__((cleanup(stale_agent_release)))

bool stale_agent_is_none(const struct stale_agent *l);
/* The page that stays, and nothing else. */
bool stale_agent_is_kept_page(const struct stale_agent *l);

/* ERROR_DENIED, with its pid, when a gospect is at work there. */
struct error *stale_agent_check_holder(struct target *t, const struct stale_agent *l) must_check;

#endif
