#include <linux/capability.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "cli/doctor.h"
#include "cli/probe.h"
#include "golayout/golayout.h"
#include "image/kernel_symbols.h"
#include "oncpu/perf_denied.h"
#include "target/access.h"

static bool has(const struct access_self *self, int capability)
{
	return self->capabilities >> capability & 1;
}

struct error *doctor_trace_is_here(void)
{
#if defined(__x86_64__)
	return NULL;
#else
	return error_format(ERROR_UNSUPPORTED, "trace supports amd64 only; use record here");
#endif
}

static void find_kernel(void)
{
	struct utsname name;

	if (uname(&name))
		return;
	doctor_find(true, "kernel", "%s %s %s", name.sysname, name.release, name.machine);
	doctor_find(true, "Go", "programs of Go 1.%d to 1.%d", GOLAYOUT_MIN_MINOR,
		    GOLAYOUT_MAX_MINOR);
}

static void find_user(const struct access_self *self)
{
	struct passwd *entry = getpwuid(self->uid);

	if (entry)
		doctor_find(true, "user", "%s (uid %u, gid %u)", entry->pw_name, self->uid,
			    self->gid);
	else
		doctor_find(true, "user", "uid %u, gid %u", self->uid, self->gid);
}

/* The ones that matter here come first in what is said: with them everything works. */
static void find_capabilities(const struct access_self *self)
{
	bool enough =
		has(self, CAP_SYS_PTRACE) && (has(self, CAP_PERFMON) || has(self, CAP_SYS_ADMIN));
	_cleanup_strbuf_ struct strbuf names = STRBUF_INIT;

	for (int i = 0; i < 64; i++) {
		const char *name = has(self, i) ? access_capability_name(i) : NULL;

		if (!has(self, i))
			continue;
		strbuf_addf(&names, names.length ? " " : "");
		strbuf_addf(&names, name ? "%s" : "%s%d", name ? name : "", i);
	}
	if (enough)
		doctor_find(true, "capabilities", "%s", names.data);
	else
		doctor_find(true, "capabilities",
			    "%s (SYS_PTRACE reads the processes of others, "
			    "PERFMON samples them: run gospect %s)",
			    names.length ? names.data : "none",
			    access_remedy(self, has(self, CAP_SYS_PTRACE) ? CAP_PERFMON
									  : CAP_SYS_PTRACE));
}

static const char *yama_meaning(int scope)
{
	static const char *const meanings[] = {
		"users can read their own processes",
		"only its parent can read a process",
		"only CAP_SYS_PTRACE can read processes",
		"no process can be read until the next boot",
	};

	return meanings[scope < 0 ? 0 : scope > 3 ? 3 : scope];
}

static bool yama_hinders(const struct access_self *self)
{
	int scope = access_yama_scope();

	return scope >= 3 || (scope > 0 && !has(self, CAP_SYS_PTRACE));
}

static void find_yama(const struct access_self *self)
{
	int scope = access_yama_scope();

	if (!yama_hinders(self))
		doctor_find(true, "yama ptrace_scope", "%d: %s", scope, yama_meaning(scope));
	else if (scope >= 3)
		doctor_find(false, "yama ptrace_scope", "%d: %s; boot with 2 or less", scope,
			    yama_meaning(scope));
	else
		doctor_find(
			false, "yama ptrace_scope",
			"%d: %s; run gospect %s, start the program with it (-- COMMAND), or set "
			"kernel.yama.ptrace_scope to 0",
			scope, yama_meaning(scope), access_remedy(self, CAP_SYS_PTRACE));
}

static int read_number(const char *path, int otherwise)
{
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	int number;

	return f && fscanf(f, "%d", &number) == 1 ? number : otherwise;
}

static void find_perf_level(const struct access_self *self)
{
	int level = perf_paranoid_level();
	bool may = has(self, CAP_PERFMON) || has(self, CAP_SYS_ADMIN) || level <= 2;

	if (may)
		doctor_find(true, "perf_event_paranoid", "%d%s", level,
			    level == 2 && !has(self, CAP_PERFMON) && !has(self, CAP_SYS_ADMIN)
				    ? ": own processes, without time in the kernel"
				    : "");
	else
		doctor_find(false, "perf_event_paranoid",
			    "%d: requires CAP_PERFMON; run gospect %s, or set "
			    "kernel.perf_event_paranoid to 2",
			    level, access_remedy(self, CAP_PERFMON));
}

/* What record --kernel needs, and nothing else. */
static void find_kernel_symbols(void)
{
	_cleanup_kernel_symbols_ struct kernel_symbols *symbols = NULL;
	_cleanup_error_ struct error *err = kernel_symbols_open(&symbols);
	int level = read_number("/proc/sys/kernel/kptr_restrict", 0);

	doctor_find(!err, "kptr_restrict", "%d: %s", level,
		    err ? err->message : "the kernel's functions have names (record --kernel)");
}

static void find_confinement(const struct access_self *self)
{
	char hidepid[16];

	if (self->filtered)
		doctor_find(true, "seccomp",
			    "a filter is active; the lines below show what it forbids (docker run "
			    "--security-opt seccomp=unconfined)");
	else
		doctor_find(true, "seccomp", "no filter");
	doctor_find(true, "security module", "%s", *self->confinement ? self->confinement : "none");
	doctor_find(true, "user namespace",
		    self->inner_user
			    ? "not the initial one: capabilities apply to its own processes only"
			    : "the first");
	doctor_find(true, "pid namespace",
		    self->inner_pid ? "not the initial one: processes outside it are invisible"
				    : "the first");
	access_hidepid(hidepid, sizeof(hidepid));
	if (!*hidepid || !strcmp(hidepid, "0") || !strcmp(hidepid, "off"))
		doctor_find(true, "hidepid", "off: /proc shows all processes");
	else
		doctor_find(has(self, CAP_SYS_PTRACE), "hidepid",
			    "%s: /proc hides processes of other users%s%s", hidepid,
			    has(self, CAP_SYS_PTRACE) ? ", except from CAP_SYS_PTRACE"
						      : "; run gospect ",
			    has(self, CAP_SYS_PTRACE) ? "" : access_remedy(self, CAP_SYS_PTRACE));
}

/* An attempt on an own child; the caller frees what it gives. */
static struct error *must_check find_probe(const char *name, const char *works, struct error *err)
{
	doctor_find(!err, name, "%s", err ? err->message : works);
	return err;
}

/* The verbs for processes that are not our children: what a child does not tell. */
static struct error *reach(const struct access_self *self)
{
	int scope = access_yama_scope();

	if (!yama_hinders(self))
		return NULL;
	return error_format(
		ERROR_DENIED,
		"kernel.yama.ptrace_scope is %d; gospect can read programs that it starts (-- "
		"COMMAND) only, or run it %s",
		scope, access_remedy(self, CAP_SYS_PTRACE));
}

static void find_verbs(struct doctor *d, const struct access_self *self, const struct error *memory,
		       const struct error *perf, const struct error *ptrace)
{
	_cleanup_error_ struct error *far = reach(self), *no_agent = doctor_trace_is_here();
	const char *whose =
		has(self, CAP_SYS_PTRACE)
			? "reads the memory of any process"
			: "reads the memory of this user's processes; other users' processes "
			  "require CAP_SYS_PTRACE";
	static const char *const readers[] = {"ps", "dump", "stack", "record", "top"};
	const struct error *read = memory ? memory : far, *trace = no_agent ? no_agent : ptrace;

	doctor_head("verbs");
	for (size_t i = 0; i < sizeof(readers) / sizeof(*readers); i++)
		doctor_find_verb(d, readers[i], whose, read);
	doctor_find_verb(d, "record, on-CPU",
			 "the kernel samples running threads (perf_event_open)",
			 read ? read : perf);
	doctor_find_verb(d, "trace", "stops the program briefly and writes to it (ptrace)",
			 read ? read : trace);
	doctor_find_verb(d, "offcpu",
			 trace ? "samples, as record does; exact where trace works"
			       : "traces: exact times of each request",
			 read);
}

void doctor_look_at_machine(struct doctor *d)
{
	_cleanup_error_ struct error *memory = NULL, *fast = NULL, *ptrace = NULL, *perf = NULL,
				     *bpf = NULL;
	struct access_self self;

	access_self_read(&self);
	doctor_head("this machine and user");
	find_kernel();
	find_user(&self);
	find_capabilities(&self);
	find_yama(&self);
	find_perf_level(&self);
	find_kernel_symbols();
	find_confinement(&self);
	memory = find_probe("reading", "the memory of a child process", probe_memory());
	fast = find_probe("process_vm_readv", "works on a child process", probe_process_vm_readv());
	if (fast && !memory)
		doctor_find(true, "",
			    "gospect reads /proc/PID/mem instead, which takes more CPU time");
	ptrace = find_probe("ptrace", "works on a child process", probe_ptrace());
	perf = find_probe("perf_event_open", "samples a child process (cpu-clock)",
			  probe_perf_events());
	bpf = find_probe("bpf", "copies labels when each sample is taken (record)", probe_bpf());
	if (bpf)
		doctor_find(true, "",
			    "labels of running goroutines are read some milliseconds late instead");
	find_verbs(d, &self, memory, perf, ptrace);
}
