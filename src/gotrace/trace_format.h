/*
 * The formats that a trace is written in. A format turns the model's steps into bytes, one
 * generation at a time. A generation is complete in itself, whatever precedes or follows it.
 */
#ifndef GOTRACE_TRACE_FORMAT_H
#define GOTRACE_TRACE_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/intern.h"
#include "gotrace/c_functions.h"
#include "gotrace/step.h"
#include "gotrace/texts.h"
#include "gotrace/trace_path.h"
#include "image/pclntab.h"
#include "unwind/stacks.h"

struct trace_writer_options {
	const struct pclntab *functions;
	const struct stacks *stacks; /* numbers of stacks in steps are of this set */
	const struct texts *texts;   /* numbers of texts in steps are of this set */
	/* Numbers of stacks of CPU samples are of this set: each is the stack's words. It is
	 * emptied between generations. NULL: there are no samples. */
	const struct intern *cpu_stacks;
	const struct c_functions *c_functions; /* in them; NULL: they have no names */
	unsigned int depth;                    /* the most frames of a stack; 0: no stacks */
	bool separate;                         /* early generations may be left out */
	const char *process;                   /* name and id of the process */
	uint64_t pid;
	/* CLOCK_MONOTONIC and the time since 1970 when the steps' ns were 0. */
	uint64_t monotonic_ns;
	uint64_t wall_ns;
	/* Receives each complete generation, and the time of its first event. */
	struct error *(*generation)(void *arg, const void *bytes, size_t size, uint64_t ns);
	void *arg;
};

/* The most tasks that a format shows at once, if it has a limit. Tasks may lack an end. */
#define TRACE_MOST_TASKS (1u << 14)

/* Private to the format. */
struct trace_writer;

struct trace_format {
	const char *name;
	const char *suffix; /* of files */
	const char *header; /* the first bytes of the file */
	size_t header_size;
	struct error *(*create)(const struct trace_writer_options *options,
				struct trace_writer **ret);
	/* The receiver of the model's steps. */
	struct trace_sink (*sink)(struct trace_writer *writer);
	/* The approximate number of bytes of the generation so far. */
	size_t (*size)(const struct trace_writer *writer);
	/* Marks the texts of steps that it still needs. */
	void (*mark_texts)(const struct trace_writer *writer, struct texts *texts);
	/* How many tasks were left out; NULL: the format has no such limit. */
	uint64_t (*left_out)(const struct trace_writer *writer);
	/* Adds a critical path to the generation, all of it before now; NULL: the format has none.
	 */
	void (*path)(struct trace_writer *writer, const struct trace_path *path);
	/* Completes the last generation. */
	struct error *(*finish)(struct trace_writer *writer);
	void (*destroy)(struct trace_writer *writer);
};

/*
 * "go 1.22 trace", which `go tool trace` reads from Go 1.22 on. Each generation begins with the
 * state of everything and has its own tables of stacks and strings. So a trace that ends early is
 * readable up to its last complete generation, and one that begins late likewise.
 * Source: internal/trace/raw and internal/trace/tracev2 of Go 1.22 to 1.27.
 */
extern const struct trace_format trace_format_go;
/* "go 1.23 trace" and "go 1.25 trace": the first status of a goroutine that waits has its stack.
 * Generations of the latter have the time of the monotonic and of the wall clock. */
extern const struct trace_format trace_format_go_123, trace_format_go_125;

/* Perfetto's, for ui.perfetto.dev: protos/perfetto/trace of https://github.com/google/perfetto. */
extern const struct trace_format trace_format_perfetto;

#endif
