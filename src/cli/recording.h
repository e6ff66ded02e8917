/*
 * A recording of all goroutines over time: from the options of a verb that makes one to what the
 * sampler saw, and on to a profile.
 *
 *     struct recording_options options = RECORDING_DEFAULTS;  filled by recording_argp, and the
 * verb recording_take()      samples until it is done; prints progress recording_wants()     which
 * of wall_sampler_buckets(recording.sampler) were asked for recording_fill()      makes a profile
 * of those; or the verb does with them what it likes recording_say()       the summary
 */
#ifndef CLI_RECORDING_H
#define CLI_RECORDING_H

#include "cli/filter.h"
#include "cli/subject.h"
#include "image/kernel_symbols.h"
#include "profile/profile.h"
#include "sample/wall.h"

struct recording_options {
	double hz;
	double duration;    /* seconds; 0: until interrupted */
	double budget;      /* percent of a core; 100: no limit */
	unsigned long goid; /* only this goroutine; 0: all */
	bool on_cpu;        /* only what runs */
	bool off_cpu;       /* only what does not */
	bool all;           /* the runtime's own goroutines too */
	bool kernel;        /* the kernel's functions too */
	bool run_queue;     /* where threads wait for a processor too */
	enum unwind_method unwind;
};

#define RECORDING_DEFAULTS             \
	{                              \
		.hz = 100, .budget = 1 \
	}

/* -d, -r and --budget: a child parser whose input is struct recording_options. */
extern const struct argp recording_argp;

struct recording {
	const struct recording_options *options;
	const struct subject *subject;
	struct wall_sampler *sampler;
	struct kernel_symbols *kernel; /* NULL: not asked for */
	struct debug_frame *frames;    /* of options->unwind */
};

/* Samples until the duration is over, the target ends, or a signal says stop (stop_on_signals()).
 * Keeps both; the caller releases *ret, also after an error; it has to be zero before. */
struct error *recording_take(const struct recording_options *options, const struct subject *subject,
			     struct recording *ret) must_check;
void recording_release(struct recording *r);
#define _cleanup_recording_ __attribute__((cleanup(recording_release)))

/* Whether the options and the filter leave it in, and something was seen there. */
bool recording_wants(const struct recording *r, struct filter *filter, const struct wall_bucket *b);

/* Adds all that is wanted to a profile of the subject (fill_process()), the times, and comments on
 * how well it is known. *ret_samples: the looks in it. */
struct error *recording_fill(const struct recording *r, struct filter *filter, struct profile *p,
			     uint64_t *ret_samples) must_check;

/* What its stacks' words are symbolized by. */
struct code recording_code(const struct recording *r);

/* What is missing and why, then one line: how long, how much, how exact, and at what cost;
 * `samples` as of recording_fill(), `path` where it was written, NULL for standard output. */
void recording_say(const struct recording *r, uint64_t samples, const char *path);

#endif
