/* How a process gives up its privilege (sandbox/sandbox.h), before it parses anything. */
#include <gospect/confine.h>
#include <linux/capability.h>
#include <time.h>
#include <unistd.h>

#include "base/cpus.h"
#include "lib/error_api.h"
#include "lib/options.h"
#include "lib/output_api.h"
#include "lib/remark.h"
#include "lib/trace.h"
#include "oncpu/cpu_sample.h"
#include "profile/source_files.h"
#include "sandbox/sandbox.h"
#include "target/access.h"
#include "target/target.h"

/* Of the machine's memory one recording or file may take this part. */
#define MEMORY_SHARE 2
#define LEAST_MEMORY (1ull << 30)

/* The most memory that this process may allocate. */
static uint64_t memory_limit(void)
{
	uint64_t pages = sysconf(_SC_PHYS_PAGES), size = pages * sysconf(_SC_PAGESIZE);

	return size / MEMORY_SHARE > LEAST_MEMORY ? size / MEMORY_SHARE : LEAST_MEMORY;
}

/*
 * The capabilities that are still needed: for the target's memory, the rings and maps of samples,
 * and real-time priority. Without CAP_SYS_PTRACE we may read a process of our own that has no
 * capability which we lack: then those of the target stay. The filter forbids what else they
 * permit.
 */
static uint64_t needed_capabilities(pid_t pid, bool samples)
{
	uint64_t keep = 1ull << CAP_SYS_PTRACE | 1ull << CAP_SYS_NICE;
	struct access_self self;

	if (samples)
		keep |= 1ull << CAP_IPC_LOCK | 1ull << CAP_BPF;

	access_self_read(&self);
	if (pid && !(self.capabilities >> CAP_SYS_PTRACE & 1))
		keep |= access_permitted(pid);
	return pid ? keep : 0;
}

/* The files still to be written: the broker renames them. */
static struct outfile_service outputs_of(const struct gospect_confine_options *o)
{
	struct outfile_service outputs = {
		.path = o->path,
		.names = {o->new_folders, o->new_endings},
		.out = output_file(o->output),
	};
	const struct trace_place *place = o->trace ? trace_place(o->trace) : NULL;

	/* A trace in memory has no file, and one with --flight has none yet. */
	if (place && place->out)
		outputs.out = place->out;
	if (place)
		outputs.family = place->family;
	if (place)
		outputs.kept.most = place->keep;
	return outputs;
}

/* NULL in a program that takes no samples, such as one that only reports: it is linked without
 * eBPF. */
extern __typeof__(sample_program_serve) sample_program_serve __attribute__((weak));

static struct error *must_check enter(const struct gospect_confine_options *o)
{
	struct outfile_service outputs = outputs_of(o);
	struct source_folder source = {.path = o->source};
	const struct outfile *out = outputs.out;
	pid_t pid = o->pid ? target_process_of(o->pid) : 0;
	const struct sandbox_options options = {
		.policy = {.pid = pid,
			   .named = o->files,
			   .services = {[DOOR_SAMPLE_PROGRAM] = {sample_program_serve, NULL},
					[DOOR_OUTFILE] = {outfile_serve, &outputs},
					[DOOR_USER] = {access_serve_user, NULL},
					[DOOR_SOURCE] = {o->source ? source_serve : NULL, &source}},
			   .keep = out && out->name ? out->folder : 0},
		.child = o->child,
		.keep = needed_capabilities(pid, o->flags & GOSPECT_CONFINE_SAMPLES),
		.memory = o->memory ? o->memory : memory_limit(),
		.cpu_seconds = o->cpu_seconds,
	};

	/* Libraries read these files now, because they cannot later. */
	cpus_configured();
	tzset();
	return sandbox_enter(&options);
}

struct gospect_error *gospect_confine(const struct gospect_confine_options *given)
{
	struct gospect_confine_options o = {0};
	struct error *err = options_take(given, &o, sizeof(o), "gospect_confine_options");
	struct remark to;

	if (!err)
		err = enter(&o);
	if (!err || err->code != ERROR_UNSUPPORTED)
		return error_out(err);
	to = (struct remark){o.remark, o.arg};
	remark(&to, "%s: gospect continues without its sandbox", err->message);
	error_destroy(err);
	return NULL;
}

void gospect_confine_end(void)
{
	sandbox_leave();
}
