/* What works on this machine for this user, and how to get the rest. */
#ifndef GOSPECT_DOCTOR_H
#define GOSPECT_DOCTOR_H

#include <gospect/error.h>

GOSPECT_BEGIN

enum gospect_finding_kind {
	GOSPECT_FINDING_FACT = 0, /* of the machine, the user or the process */
	GOSPECT_FINDING_VERB = 1, /* whether a verb of gospect works, or a part of one */
};

struct gospect_finding {
	enum gospect_finding_kind kind;
	uint32_t is_good;
	/* "ptrace", or a verb: "record". "record, on-CPU" is a part of a verb. "": the text
	 * continues the finding before. */
	const char *name;
	const char *text; /* what was found, or what is missing and the remedy */
};

/*
 * Calls finding() for what this machine and this user permit, and then for each verb. It tries each
 * verb on a child of this process, which it starts and ends. The argument of finding() is valid
 * during the call. A failure is a finding, so there is no error.
 */
GOSPECT_API void gospect_doctor_machine(void (*finding)(void *arg,
							const struct gospect_finding *finding),
					void *arg);

/*
 * The same for one process; takes a minute at most. It removes the agent of a killed trace; apart
 * from that it only reads. Confined children of this process read the target; the rules of
 * gospect_processes_each() apply.
 */
GOSPECT_API void
gospect_doctor_process(int pid, void (*finding)(void *arg, const struct gospect_finding *finding),
		       void *arg);

GOSPECT_END

#endif
