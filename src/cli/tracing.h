/* A trace of a live process, from its beginning to its end: shared by the verbs that make one. */
#ifndef CLI_TRACING_H
#define CLI_TRACING_H

#include <regex.h>

#include "base/strbuf.h"
#include "cli/subject.h"
#include "collect/tracer.h"
#include "gotrace/format.h"
#include "gotrace/model.h"
#include "gotrace/trace_file.h"

struct tracing_options {
	const struct trace_format *format;
	double duration;  /* seconds; 0: until interrupted */
	double flight;    /* keep so many seconds in memory; 0: write all as it comes */
	double max_size;  /* MB */
	double max_pause; /* seconds; 0: any */
	unsigned int stack_depth;
	const regex_t *root; /* whose calls are told, besides those of handlers; or NULL */
	const char *path;    /* "-": standard output; NULL: into `bytes` */
	struct strbuf *bytes;
};

/* A trace under way. */
struct tracing {
	struct tracing_options options;
	struct tracer *tracer;
	struct trace_model *model;
	struct trace_writer *writer;
	struct trace_file *file;
	int spill;              /* a file for records that wait to be decoded */
	uint64_t spill_bytes;   /* of it; 0: there is none */
	uint64_t generation_ns; /* when it began */
	size_t enough;          /* bytes with which it is complete */
	uint64_t last_ns;       /* of the last event; then when the target was left alone */
	uint64_t asked_ns; /* what was before this is to be written now; 0: nothing is asked for */
	uint64_t told_ns;  /* when it was last told how far it is */
	uint64_t stopped_ns; /* when the agent was taken out; 0: it was not */
	bool renewed;        /* a generation has ended whose texts are not yet forgotten */
	bool full;
	bool given_up;               /* the last of what was recorded is not decoded */
	struct error *detach_failed; /* said at the end, for what was traced is complete */
};

/* stop_on_signals(), and SIGUSR1 for a flight. However often we are told to stop: the agent is
 * taken out first. */
void tracing_handle_signals(const struct tracing_options *options);

/* Opens the file: before the target is, so that no trace is lost to a name that cannot be written.
 */
struct error *tracing_open(struct tracing *t, const struct tracing_options *options) must_check;
/* Puts the agent into the target. */
struct error *tracing_begin(struct tracing *t, const struct subject *s) must_check;
/* Traces for as long as it was asked for, gives the file its name, and says what came of it. */
struct error *tracing_run(struct tracing *t) must_check;
void tracing_release(struct tracing *t);
#define _cleanup_tracing_ __attribute__((cleanup(tracing_release)))

#endif
