/* A process that keeps its privilege and answers requests (sandbox/broker.h): the broker, or a
 * helper. It ends when the other end of its socket is closed. */
#ifndef SANDBOX_HALF_H
#define SANDBOX_HALF_H

#include "sandbox/broker.h"

struct half {
	pid_t pid; /* 0: none */
	int socket;
};

#define HALF_NONE ((struct half){0, -1})

/* Keeps the policy. Call half_end() after an error, too. */
struct error *half_start(const struct broker_policy *policy, const char *name,
			 struct half *ret) must_check;
/* Waits for its end. Does nothing if none was started. */
void half_end(struct half *half);

#endif
