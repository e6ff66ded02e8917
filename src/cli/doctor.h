/* The findings of `gospect doctor`: a line each, with what to do where something is missing. */
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

struct doctor {
	bool verb_fails; /* a verb that does not work was among the findings */
};

/* "ok  name  text" or "no  name  text" on standard output. */
void doctor_find(bool ok, const char *name, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Of a verb. Without an error it works, and `needs` says what it uses; else why not, and the
 * remedy. */
void doctor_find_verb(struct doctor *d, const char *verb, const char *needs,
		      const struct error *err);
/* A line above those that follow. */
void doctor_head(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* NULL where there is an agent for this processor. */
struct error *doctor_trace_is_here(void) must_check;

/* What this machine and this user may do. */
void doctor_look_at_machine(struct doctor *d);
/* What can be done to this process; removes what a gospect that is no more has left in it. */
void doctor_look_at_process(struct doctor *d, pid_t pid);

#endif
