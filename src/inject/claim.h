/*
 * One gospect for a process at a time.
 *
 * gospect marks a process that it traces by a page (a memfd) that both have mapped. The page holds
 * the id of one of gospect's threads. When that thread ends in any way, the kernel clears the id,
 * as it does for a robust mutex (set_robust_list(2)). So every process that may read the target can
 * see whether that gospect lives, from any namespace. A process that may not trace the target
 * cannot forge the page. The target itself can; then it is not traced.
 *
 * Each gospect maps its own page first, then looks for others. Of two that start at once, at least
 * one sees the other and gives way.
 */
#ifndef INJECT_CLAIM_H
#define INJECT_CLAIM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "inject/claim_page.h"
#include "inject/plan.h"
#include "target/target.h"

/* Time for another gospect to remove a stale agent: it has to wait for a CPU, too. */
#define CLAIM_CLEANING_NS 2000000000ull

struct claim {
	struct claim_page *page; /* ours, mapped here; NULL: none */
	uint64_t address;        /* in the target; 0: it is not there */
};

/* How a thread of the target is made to do it: inject/remote.h. */
struct claim_way {
	struct target *t;
	const struct survey *survey;
	const struct originals *originals;
	int memory;
	bool suspend_seccomp;
	bool cleans; /* as in the page */
	pid_t named; /* likewise */
};

/*
 * Claims the process. Waits for a gospect that removes a stale agent. ERROR_DENIED when another
 * gospect traces it, whose pid is named. The calling thread holds the claim and must live until
 * claim_release(), which follows in any case. A process of gospect has one claim.
 */
struct error *claim_take(const struct claim_way *way, struct claim *ret) must_check;

/* Others may come. false: the page could not be unmapped in the target. */
bool claim_release(const struct claim_way *way, struct claim *claim) must_check;
/* Others may come; the page stays in the target. */
void claim_end(struct claim *claim);

#endif
