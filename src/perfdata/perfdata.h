/*
 * A recording of `perf record` as a profile. Stacks are unwound again from the registers and the
 * bytes of stack in the samples (--call-graph dwarf): Go programs by the tables of their files,
 * others by their call frame information. Callchains by frame pointers (-g) stay as they are. A
 * callchain that is known to lack a caller is marked (STACK_PC_NO_CALLER). On arm64 the recorded LR
 * is that caller.
 */
#ifndef PERFDATA_PERFDATA_H
#define PERFDATA_PERFDATA_H

#include <stdio.h>

#include "perfdata/perf_file.h"
#include "profile/read.h"

/* Remarks for the user. */
struct perfdata_remarks {
	char **lines;
	size_t count;
	size_t capacity;
};

/*
 * `exe` (or NULL) is a program that is not at its recorded path, as in a recording from another
 * machine. It is used for programs with its build id, or, if the recording has no build ids, with
 * its name. ERROR_CORRUPT, ERROR_UNSUPPORTED: nothing of the recording can be used, and why.
 * ERROR_STOPPED when *cancel is not 0, which may be NULL.
 */
struct error *perfdata_read(const void *bytes, size_t size, const char *exe,
			    const atomic_int *cancel, struct profile_file *ret,
			    struct perfdata_remarks *remarks) must_check;
/*
 * Writes the recording again, for perf and other programs that read its files: each sample has the
 * stack that perfdata_read() finds, without inlined calls. Callers that are not in the recording
 * are 0.
 */
struct error *perfdata_rewrite(const void *bytes, size_t size, const char *exe,
			       const atomic_int *cancel, FILE *out,
			       struct perfdata_remarks *remarks) must_check;
void perfdata_remarks_release(struct perfdata_remarks *remarks);
#define _cleanup_perfdata_remarks_ __attribute__((cleanup(perfdata_remarks_release)))

#endif
