/* How long a stop of all the target's threads will take, before there is one. */
#ifndef INJECT_PAUSE_H
#define INJECT_PAUSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "inject/quota.h"

/* A quota that makes it longer: CPU time in each period. Both 0: there is none. */
struct pause_quota {
	uint64_t runtime_ns, period_ns;
};

struct pause {
	size_t threads;
	uint64_t ns; /* of each stop; more where the machine has much to do */
	struct pause_quota own, target;
};

struct pause_conditions {
	size_t threads;
	bool is_real_time; /* gospect's threads that stop them: no quota holds for these */
	uint64_t fork_ns;  /* in which a thread of the target copies page tables meanwhile */
	struct quota own, target;
};

void pause_compute(const struct pause_conditions *c, struct pause *ret);

/* Of this process, by one that may have a real-time priority if the surgeon may. Stops nothing. */
void pause_expect(pid_t pid, struct pause *ret);
/* The same for a stop in which the process forks, which takes it so long. */
void pause_expect_fork(pid_t pid, uint64_t fork_ns, struct pause *ret);

#endif
