/* For the files of this room only: a finding as it is made, and the rules. */
#ifndef WHY_RULE_H
#define WHY_RULE_H

#include "base/strbuf.h"
#include "why/why_rules.h"

struct draft {
	struct strbuf sentence;
	struct strbuf evidence;
	struct strbuf next;
	enum why_severity severity;
};

/* "gospect VERB -p 4711" */
static inline void draft_command(struct draft *d, const struct why_numbers *n, const char *verb)
{
	strbuf_addf(&d->next, "gospect %s %s", verb, n->target);
}

/* Each fills in the draft and is true if its rule applies. */
bool why_find_deadlock(const struct why_numbers *n, struct draft *d);
bool why_find_stopped(const struct why_numbers *n, struct draft *d);
bool why_find_stuck_lock(const struct why_numbers *n, struct draft *d);
bool why_find_quiet(const struct why_numbers *n, struct draft *d);
bool why_find_lock(const struct why_numbers *n, struct draft *d);
bool why_find_pool(const struct why_numbers *n, struct draft *d);
bool why_find_disk(const struct why_numbers *n, struct draft *d);
bool why_find_peer(const struct why_numbers *n, struct draft *d);
bool why_find_queue(const struct why_numbers *n, struct draft *d);
bool why_find_leak(const struct why_numbers *n, struct draft *d);
bool why_find_crowd(const struct why_numbers *n, struct draft *d);
bool why_find_throttled(const struct why_numbers *n, struct draft *d);
bool why_find_spin(const struct why_numbers *n, struct draft *d);
bool why_find_timers(const struct why_numbers *n, struct draft *d);
bool why_find_ready(const struct why_numbers *n, struct draft *d);
bool why_find_steal(const struct why_numbers *n, struct draft *d);
bool why_find_gc(const struct why_numbers *n, struct draft *d);
bool why_find_limit(const struct why_numbers *n, struct draft *d);
bool why_find_growth(const struct why_numbers *n, struct draft *d);

#endif
