/*
 * A recording of `perf record` as a profile. Stacks of Go programs are made anew from the registers
 * and the bytes of stack in the samples (--call-graph dwarf), by the tables of the program's file;
 * those of other programs by their call frame information. Frame-pointer chains of perf (-g) stay
 * as they are. A chain that is known to lack a caller is marked (STACK_PC_NO_CALLER). On arm64 the
 * recorded LR is that caller.
 */
#ifndef PERFDATA_PERFDATA_H
#define PERFDATA_PERFDATA_H

#include "perfdata/perf_file.h"
#include "profile/read.h"

/* Remarks for the user. */
struct perfdata_remarks {
	char **lines;
	size_t count;
	size_t capacity;
};

/*
 * `exe`, or NULL, is a program's file for where it is not at its path, as when the recording comes
 * from another machine: used for what has its build id, or, where the recording has none, its name.
 * ERROR_CORRUPT, ERROR_UNSUPPORTED: nothing of the recording can be used, and why.
 * ERROR_STOPPED when *cancel is not 0, which may be NULL.
 */
struct error *perfdata_read(const void *bytes, size_t size, const char *exe,
			    const atomic_int *cancel, struct profile_file *ret,
			    struct perfdata_remarks *remarks) must_check;
void perfdata_remarks_release(struct perfdata_remarks *remarks);
#define _cleanup_perfdata_remarks_ __attribute__((cleanup(perfdata_remarks_release)))

#endif
