/* The page in a process that shows that a gospect is at work there: inject/claim.h. */
#ifndef INJECT_CLAIM_PAGE_H
#define INJECT_CLAIM_PAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define CLAIM_NAME "gospect-claim"
#define CLAIM_BYTES 4096

/* The contents of the page. */
struct claim_page {
	uint32_t holder;    /* a thread's id, as FUTEX_* of linux/futex.h has it */
	uint32_t pid;       /* of gospect, in its own pid namespace */
	uint64_t namespace; /* the number of that namespace: /proc/PID/ns/pid */
	uint32_t cleans;    /* 1: it removes a stale agent, and ends soon */
	uint32_t named;     /* the gospect that users know, if that is another process; or 0 */
};

/* As this process's, held by this thread of it; the rest is filled by then. */
void claim_page_sign(struct claim_page *page, pid_t thread);

/* The pid of the gospect that holds this page, as read from the target; 0: it has ended. *ret_here:
 * the pid is of our own pid namespace. */
pid_t claim_page_holder(const struct claim_page *page, bool *ret_here);

#endif
