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
	/* "ptrace", or a verb: "record". "record, on-CPU" is a part of one. "": it goes on about
	 * the one before. */
	const char *name;
	const char *text; /* what was found; what is missing, and the remedy */
};

/*
 * Hands over what this machine and this user permit, and then whether each verb works. It tries
 * each: it reads, traces and samples a child of this process, which it starts and ends. The
 * argument of finding() is valid during the call. Every cause is a finding, so there is no error.
 */
GOSPECT_API void gospect_doctor_machine(void (*finding)(void *arg,
							const struct gospect_finding *finding),
					void *arg);

/*
 * Likewise of one process, which takes a minute at most. It removes the agent of a trace that was
 * killed; apart from that it only reads. Confined children of this process look at the target, as
 * for gospect_processes_each(), of which the other rules apply, too.
 */
GOSPECT_API void
gospect_doctor_process(int pid, void (*finding)(void *arg, const struct gospect_finding *finding),
		       void *arg);

GOSPECT_END

#endif
