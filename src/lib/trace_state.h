/*
 * The state of a trace of a live process, for the files of the library that make it: lib/trace.c,
 * lib/trace_flight.c for a trace that stays in memory, and lib/trace_remarks.c for what it tells
 * its user.
 */
#ifndef LIB_TRACE_STATE_H
#define LIB_TRACE_STATE_H

#include <regex.h>

#include "base/kept_files.h"
#include "base/strbuf.h"
#include "collect/tracer.h"
#include "gotrace/model.h"
#include "gotrace/trace_file.h"
#include "gotrace/trace_format.h"
#include "lib/surgeon_api.h"
#include "lib/target_handle.h"
#include "lib/trace.h"
#include "requests/step_paths.h"
#include "triggers/watch.h"

struct gospect_trace {
	struct trace_place place; /* first: see lib/trace.h */
	struct gospect_trace_options options;
	const struct trace_format *format;
	regex_t root; /* of options.root and options.when */
	bool has_root;
	struct gospect_target *target;   /* NULL: it has not begun */
	struct gospect_surgeon *surgeon; /* created by this trace; NULL: the caller's */
	struct surgeon_line line;        /* to the surgeon in use */
	struct tracer *tracer;
	struct trace_model *model;
	struct trace_writer *writer;
	struct step_paths *paths; /* of requests; NULL: the format has none */
	struct trace_file *file;  /* NULL: to options.sink */
	uint64_t written;         /* bytes written to the sink so far */
	struct strbuf bytes;      /* or here, with GOSPECT_TRACE_IN_MEMORY */
	int spill;                /* a file for records that wait to be decoded */
	uint64_t spill_bytes;     /* its size; 0: no file */
	uint64_t generation_ns;   /* when it began */
	uint64_t generations;     /* that are complete */
	size_t enough;            /* bytes at which it is complete */
	uint64_t last_ns;         /* of the last event; then when the agent was removed */
	const char *reason;       /* why it has ended; NULL: it has not */
	const char *incident;     /* the last file of the flight; NULL: none */
	struct watch *watch;      /* of options.when; NULL: none */
	const char *why;          /* the word of the incident that is to be written */
	struct kept_files kept;   /* the files of the flight, when there is no broker */
	bool is_news;             /* something happened since the last file of the flight */
	uint64_t asked_ns;        /* records before this are to be written now; 0: no request */
	uint64_t rss_ns;          /* when resident memory was read */
	uint64_t reported_ns;     /* when progress was last reported */
	uint64_t stopped_ns;      /* when the agent was removed; 0: it was not */
	bool renewed; /* a generation has ended, and its texts have not been swept yet */
	bool filled;  /* it ended because too many records waited */
	bool full;
	bool ran;                    /* gospect_trace_run() was called */
	bool complete;               /* `stats` are known */
	bool given_up;               /* the last records were not decoded */
	struct error *detach_failed; /* reported at the end, because the trace is complete */
	atomic_bool write_requested; /* the flight */
	struct gospect_trace_stats stats;
};

static inline double trace_megabytes(const struct gospect_trace *t)
{
	return t->options.max_bytes / (double)(1 << 20);
}

#endif
