#include "cli/confine.h"

#include <linux/capability.h>
#include <time.h>
#include <unistd.h>

#include "base/cpus.h"
#include "cli/cli.h"
#include "oncpu/moment.h"
#include "sandbox/sandbox.h"
#include "target/access.h"

/* What one recording or file may take at most. */
#define MEMORY_SHARE 2
#define LEAST_MEMORY (1ull << 30)

/* A part of the machine's. */
static uint64_t memory_limit(void)
{
	uint64_t pages = sysconf(_SC_PHYS_PAGES), size = pages * sysconf(_SC_PAGESIZE);

	return size / MEMORY_SHARE > LEAST_MEMORY ? size / MEMORY_SHARE : LEAST_MEMORY;
}

/*
 * What reading the target's memory, its samples' rings and maps, and being on time still take.
 * Without CAP_SYS_PTRACE we may read a process of our own that has no capability which we lack:
 * then those of the target stay. The filter forbids what else they permit.
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

static struct error *must_check enter(const struct confinement *c, uint64_t memory,
				      uint64_t cpu_seconds)
{
	static struct sandbox_options options;
	static struct outfile_service outputs;
	struct error *err;

	options = (struct sandbox_options){
		.policy = {.pid = c->pid,
			   .named = c->files,
			   .services = {[DOOR_MOMENT] = {moment_program_serve, NULL},
					[DOOR_USER] = {access_serve_user, NULL}},
			   .keep = c->out && c->out->name ? c->out->folder : 0},
		.apart = c->surgeon,
		.apart_number = DOOR_SURGEON,
		.apart_name = "gospect-surgeon",
		.child = c->child,
		.keep = needed_capabilities(c->pid, c->samples),
		.memory = memory,
		.cpu_seconds = cpu_seconds,
	};
	outputs = (struct outfile_service){c->path, c->names, c->out, {0}};
	options.policy.services[DOOR_OUTFILE] = (struct broker_service){outfile_serve, &outputs};
	/* What reads files that cannot be read afterwards. */
	cpus_configured();
	tzset();
	err = sandbox_enter(&options);
	if (!err || err->code != ERROR_UNSUPPORTED)
		return err;
	say("%s: gospect continues without its sandbox", err->message);
	error_destroy(err);
	return NULL;
}

struct error *confine(const struct confinement *c)
{
	return enter(c, memory_limit(), 0);
}

struct error *confine_worker(const struct confinement *c, uint64_t memory, uint64_t cpu_seconds)
{
	return enter(c, memory, cpu_seconds);
}
