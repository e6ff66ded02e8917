#include <string.h>

#include "base/cleanup.h"
#include "base/outfile.h"
#include "cli/fill.h"
#include "cli/recording.h"
#include "cli/request.h"
#include "cli/stop.h"
#include "cli/unwind_option.h"
#include "profile/profile.h"

enum { KEY_ON_CPU = 0x5000, KEY_OFF_CPU, KEY_RAW, KEY_ALL, KEY_KERNEL, KEY_RUN_QUEUE };

struct record_verb {
	struct request request;
	struct recording_options recording;
	const struct profile_format *format;
	bool raw;
};

static const struct argp_option options[] = {
	{"on-cpu", KEY_ON_CPU, NULL, 0, "Only what runs", 4},
	{"off-cpu", KEY_OFF_CPU, NULL, 0, "Only what does not run", 4},
	{"raw", KEY_RAW, NULL, 0, "Addresses only, without functions and lines (pprof)", 4},
	{"all", KEY_ALL, NULL, 0, "The runtime's own goroutines too", 4},
	{"kernel", KEY_KERNEL, NULL, 0,
	 "The kernel's functions too, as name_[k], where what runs was in the kernel; needs "
	 "CAP_PERFMON and CAP_SYSLOG",
	 4},
	{"run-queue", KEY_RUN_QUEUE, NULL, 0,
	 "Divide running time also by where threads waited for a processor, which the kernel tells "
	 "when it switches: right by function on a saturated machine, too. Costs the target up to "
	 "1 us a switch; needs CAP_PERFMON",
	 4},
	{0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct record_verb *v = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &v->request;
		state->child_inputs[1] = &v->recording;
		state->child_inputs[2] = &v->recording.unwind;
		return 0;
	case KEY_ON_CPU:
		v->recording.on_cpu = true;
		return 0;
	case KEY_OFF_CPU:
		v->recording.off_cpu = true;
		return 0;
	case KEY_RAW:
		v->raw = true;
		return 0;
	case KEY_ALL:
		v->recording.all = true;
		return 0;
	case KEY_RUN_QUEUE:
		v->recording.run_queue = true;
		return 0;
	case KEY_KERNEL:
		v->recording.kernel = true;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_child children[] = {{&request_argp, 0, NULL, 0},
					     {&recording_argp, 0, NULL, 0},
					     {&unwind_argp, 0, NULL, 0},
					     {0}};

static const struct argp argp = {options,
				 parse,
				 "-p PID\n-- COMMAND ARGS...",
				 "Records where every goroutine of a Go program spends its time, "
				 "running and waiting together, without stopping it.\vFormats: "
				 "pprof, folded, speedscope, html; by the file's name: .pb.gz "
				 ".pprof .folded .json .html.\n"
				 "\n"
				 "Example: gospect record -p 1234 -d 10 -o profile.html",
				 children,
				 NULL,
				 NULL};

static struct error *choose_format(struct record_verb *v)
{
	if (v->recording.on_cpu && v->recording.off_cpu)
		return error_format(ERROR_USAGE,
				    "record: --on-cpu and --off-cpu leave nothing together");
	if (v->recording.kernel && v->recording.off_cpu)
		return error_format(ERROR_USAGE,
				    "record: --kernel is for what runs; --off-cpu leaves that out");
	if (v->recording.run_queue && v->recording.off_cpu)
		return error_format(ERROR_USAGE, "record: --run-queue is for what runs; --off-cpu "
						 "leaves that out");
	if (v->recording.kernel && v->raw)
		return error_format(ERROR_USAGE,
				    "record: --raw leaves out names, and the kernel's addresses "
				    "mean nothing without; leave out --kernel");
	if (v->request.output.format)
		v->format = profile_format_named(v->request.output.format);
	else if (v->request.output.path && strcmp(v->request.output.path, "-"))
		v->format = profile_format_for_file(v->request.output.path);
	else
		v->format = &profile_format_folded;
	if (!v->format && v->request.output.format)
		return error_format(ERROR_USAGE,
				    "record: there is no format '%s'; there are pprof, folded, "
				    "speedscope and html",
				    v->request.output.format);
	if (!v->format)
		return error_format(ERROR_USAGE,
				    "record: cannot tell the format from the name %s; end it in "
				    ".pb.gz, .pprof, .folded, .json or .html, or give -f",
				    v->request.output.path);
	if (v->raw && v->format != &profile_format_pprof)
		return error_format(ERROR_USAGE, "record: --raw writes pprof; give -f pprof");
	if (v->format->binary && output_is_terminal(&v->request.output))
		return error_format(ERROR_USAGE, "record: %s is not for a terminal; give -o FILE",
				    v->format->name);
	return NULL;
}

static struct error *write_profile(struct record_verb *v, struct profile *p,
				   const struct code *code, struct outfile *out)
{
	_cleanup_profile_symbols_ struct profile_symbols *symbols = NULL;
	struct error *err;

	if (v->raw)
		err = profile_symbolize(p, NULL, &symbols);
	else
		err = profile_symbolize_code(p, code, &symbols);
	if (!err)
		err = fill_modules(p, code->modules);
	if (!err)
		err = v->format->write(p, symbols, out->stream);
	return err ? err : outfile_commit(out);
}

static struct error *record(struct record_verb *v, const struct subject *s, struct outfile *out)
{
	const char *path = v->request.output.path;
	_cleanup_recording_ struct recording recording = {0};
	_cleanup_profile_ struct profile *p = profile_create();
	struct error *err = p ? fill_process(p, s) : &error_no_memory;
	uint64_t samples = 0;
	struct code code;

	v->recording.goid = v->request.filter.goid;
	if (!err)
		err = recording_take(&v->recording, s, &recording);
	if (!err)
		err = recording_fill(&recording, &v->request.filter, p, &samples);
	if (err)
		return err;
	code = recording_code(&recording);
	err = write_profile(v, p, &code, out);
	if (!err)
		recording_say(&recording, samples, path && strcmp(path, "-") ? path : NULL);
	return err;
}

static struct error *run_record(struct record_verb *v, int *ret)
{
	_cleanup_outfile_ struct outfile out = {0};
	_cleanup_subject_ struct subject s = {0};
	struct error *err = subject_check(&v->request.subject, "record");

	if (!err)
		err = choose_format(v);

	/* Opened first: ten seconds of recording are not lost to a name that cannot be written. */
	if (!err)
		err = outfile_open(v->request.output.path ? v->request.output.path : "-", &out);
	if (err)
		return err;
	stop_on_signals();
	v->request.subject.out = &out;
	err = subject_open(&v->request.subject, &s);
	if (!err)
		err = record(v, &s, &out);
	if (s.child)
		*ret = subject_wait(&s);
	return err;
}

static struct error *run(int argc, char **argv, int *ret)
{
	struct record_verb v = {.recording = RECORDING_DEFAULTS, .request.subject.confines = true};
	bool help;
	struct error *err = parse_options(&argp, "record", argc, argv, &v, &help);

	if (!err && !help)
		err = run_record(&v, ret);
	request_release(&v.request);
	return err;
}

const struct verb verb_record = {"record",
				 "a profile over time: all goroutines, running and waiting", run};
