/* The findings of a doctor (gospect/doctor.h), as they are made. */
#ifndef LIB_FINDINGS_H
#define LIB_FINDINGS_H

#include <gospect/doctor.h>
#include <stdbool.h>

#include "base/error.h"

struct findings {
	void (*report)(void *arg, const struct gospect_finding *finding);
	void *arg;
};

void findings_add(const struct findings *to, bool good, const char *name, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* Adds the finding for a verb. Without an error it works, and `needs` says what it uses; else the
 * error says why not, and the remedy. */
void findings_add_verb(const struct findings *to, const char *verb, const char *needs,
		       const struct error *err);

/* NULL where the agent supports this architecture. */
struct error *findings_agent(void) must_check;

/* A line for each verb that only reads: `text`, or why `read` forbids it. */
void findings_add_readers(const struct findings *to, const char *text, const struct error *read);

#endif
