/*
 * What a gospect has put into a process: found by the names of the mappings and descriptors, and by
 * the head of the code page.
 */
#ifndef INJECT_LEFTOVERS_H
#define INJECT_LEFTOVERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "inject/code.h"
#include "inject/plan.h"
#include "target/target.h"

struct leftover_range {
	uint64_t address;
	uint64_t size;
};

struct leftovers {
	bool has_head; /* of a code page */
	struct code_head head;
	bool patched;                  /* a place has our jump */
	struct leftover_range *ranges; /* to unmap */
	size_t range_count, range_capacity;
	int *descriptors; /* to close, in the target */
	size_t descriptor_count, descriptor_capacity;
	pid_t holder;        /* the gospect that is at work there: its pid in its namespace; or 0 */
	bool holder_is_here; /* that is ours */
	bool holder_cleans;  /* and is gone in a moment */
};

/*
 * Whatever bears our names, the target may have made; nothing of the head is believed that gospect
 * could not have written: its sizes and addresses lie in mappings of those names, and what its
 * places had before is among `originals`. ERROR_DENIED when something is not so. Without our
 * own claim (inject/claim.h), which is at `own`; 0: there is none yet.
 */
struct error *leftovers_find(struct target *t, const struct originals *originals, uint64_t own,
			     struct leftovers *ret) must_check;
/* The part of it that believes least: what lies in these mappings, added to *l. */
struct error *leftovers_look_at_maps(struct target *t, const struct originals *originals,
				     const struct target_maps *maps, uint64_t own,
				     struct leftovers *l) must_check;
/* The head of the first code page, for who finds out what its places had before. ERROR_FAULT: there
 * is none. */
struct error *leftovers_read_head(struct target *t, const struct target_maps *maps,
				  struct code_head *ret) must_check;
void leftovers_release(struct leftovers *l);
#define _cleanup_leftovers_ __attribute__((cleanup(leftovers_release)))

bool leftovers_none(const struct leftovers *l);
/* The page that stays, and nothing else. */
bool leftovers_kept_page_alone(const struct leftovers *l);

/* ERROR_DENIED, with its pid, when a gospect is at work there. */
struct error *leftovers_check_holder(struct target *t, const struct leftovers *l) must_check;

#endif
