/*
 * Where a trace's generations go: one after the other into a growing file, or into memory, from
 * where the last seconds are written on request.
 */
#ifndef GOTRACE_TRACE_FILE_H
#define GOTRACE_TRACE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/outfile.h"

struct trace_file_options {
	const char *path; /* "-": standard output. For a trace in memory: see trace_file_write() */
	/* For a trace in memory: endings of `path` that stay at the end of names, such as ".trace";
	 * NULL-terminated; NULL: none. */
	const char *const *endings;
	const char *header; /* before all generations; copied */
	size_t header_size;
	uint64_t max_bytes;
	uint64_t flight_ns; /* keep this much in memory; 0: write each generation at once */
};

struct trace_file;

/* Opens the file. For a trace in memory it only checks that a file can be made. */
struct error *trace_file_open(const struct trace_file_options *options,
			      struct trace_file **ret) must_check;

/* Takes a complete generation whose first event was at `ns`. If it cannot be written, the complete
 * part before it stays. A trace in memory drops its oldest generations, and all when one generation
 * alone is too large. */
struct error *trace_file_add(struct trace_file *file, const void *bytes, size_t size,
			     uint64_t ns) must_check;

/* Whether one more generation of this size exceeds the limit. Never true for a trace in memory. */
bool trace_file_is_full(const struct trace_file *file, size_t size);

/* Whether a trace in memory is empty because its last generation alone exceeded the limit. */
bool trace_file_is_outgrown(const struct trace_file *file);

/*
 * Writes what is in memory to a new file. For the path NAME.trace it is
 * NAME-YYYYmmdd-HHMMSS-REASON.trace, in local time. If that exists, it is
 * NAME-YYYYmmdd-HHMMSS-N-REASON.trace, N from 2 on. The memory is kept. *ret_path is valid until
 * the next call.
 */
struct error *trace_file_write(struct trace_file *file, const char *reason,
			       const char **ret_path) must_check;

/* Gives the growing file its final name. */
struct error *trace_file_commit(struct trace_file *file) must_check;

/* The open output; NULL: the trace is in memory. */
struct outfile *trace_file_out(struct trace_file *file);
/* The common beginning of all names that trace_file_write() makes. */
const char *trace_file_family(const struct trace_file *file);
/* The size of the trace so far, and the ns of its first event; 0 when it is empty. */
uint64_t trace_file_size(const struct trace_file *file);
uint64_t trace_file_began(const struct trace_file *file);

/* Removes an uncommitted file. */
void trace_file_close(struct trace_file *file);

static inline void cleanup_trace_file(struct trace_file **file)
{
	trace_file_close(*file);
}
#define _cleanup_trace_file_ __attribute__((cleanup(cleanup_trace_file)))

#endif
