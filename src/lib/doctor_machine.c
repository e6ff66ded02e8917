#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "base/user_name.h"
#include "golayout/golayout.h"
#include "image/kernel_symbols.h"
#include "lib/findings.h"
#include "lib/probe.h"
#include "oncpu/perf_denied.h"
#include "target/access.h"

static bool has(const struct access_self *self, int capability)
{
	return self->capabilities >> capability & 1;
}

static void find_kernel(const struct findings *to)
{
	struct utsname name;

	if (uname(&name))
		return;
	findings_add(to, true, "kernel", "%s %s %s", name.sysname, name.release, name.machine);
	findings_add(to, true, "Go", "programs of Go 1.%d to 1.%d", GOLAYOUT_MIN_MINOR,
		     GOLAYOUT_MAX_MINOR);
}

static void find_user(const struct findings *to, const struct access_self *self)
{
	char name[256];

	if (user_name_find(self->uid, name, sizeof(name)))
		findings_add(to, true, "user", "%s (uid %u, gid %u)", name, self->uid, self->gid);
	else
		findings_add(to, true, "user", "uid %u, gid %u", self->uid, self->gid);
}

/* The capabilities that matter here come first: with these everything works. */
static void find_capabilities(const struct findings *to, const struct access_self *self)
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
		findings_add(to, true, "capabilities", "%s", names.data);
	else
		findings_add(
			to, true, "capabilities",
			"%s (CAP_SYS_PTRACE reads other users' processes, CAP_PERFMON samples them; run gospect %s)",
			names.length ? names.data : "none",
			access_remedy(self,
				      has(self, CAP_SYS_PTRACE) ? CAP_PERFMON : CAP_SYS_PTRACE));
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

static void find_yama(const struct findings *to, const struct access_self *self)
{
	int scope = access_yama_scope();

	if (!yama_hinders(self))
		findings_add(to, true, "yama ptrace_scope", "%d: %s", scope, yama_meaning(scope));
	else if (scope >= 3)
		findings_add(to, false, "yama ptrace_scope", "%d: %s; boot with 2 or less", scope,
			     yama_meaning(scope));
	else
		findings_add(
			to, false, "yama ptrace_scope",
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

static void find_perf_level(const struct findings *to, const struct access_self *self)
{
	int level = perf_paranoid_level();
	bool may = has(self, CAP_PERFMON) || has(self, CAP_SYS_ADMIN) || level <= 2;

	if (may)
		findings_add(to, true, "perf_event_paranoid", "%d%s", level,
			     level == 2 && !has(self, CAP_PERFMON) && !has(self, CAP_SYS_ADMIN)
				     ? ": own processes, without time in the kernel"
				     : "");
	else
		findings_add(to, false, "perf_event_paranoid",
			     "%d: requires CAP_PERFMON; run gospect %s, or set "
			     "kernel.perf_event_paranoid to 2",
			     level, access_remedy(self, CAP_PERFMON));
}

/* Needed by record --kernel alone. */
static void find_kernel_symbols(const struct findings *to)
{
	_cleanup_kernel_symbols_ struct kernel_symbols *symbols = NULL;
	_cleanup_error_ struct error *err = kernel_symbols_open(&symbols);
	int level = read_number("/proc/sys/kernel/kptr_restrict", 0);

	findings_add(to, !err, "kptr_restrict", "%d: %s", level,
		     err ? err->message : "kernel functions have names (record --kernel)");
}

/* The level in brackets: "none [integrity] confidentiality". Its file is that of root. */
static void find_lockdown(const struct findings *to)
{
	_cleanup_fclose_ FILE *f = fopen("/sys/kernel/security/lockdown", "re");
	char level[32];

	if (!f)
		findings_add(to, true, "lockdown",
			     "not known: /sys/kernel/security/lockdown cannot be read");
	else if (fscanf(f, "%*[^[][%31[a-z]", level) == 1 || fscanf(f, "[%31[a-z]", level) == 1)
		findings_add(to, true, "lockdown", "%s: it forbids nothing that gospect needs",
			     level);
}

static void find_confinement(const struct findings *to, const struct access_self *self)
{
	char hidepid[16];

	if (self->filtered)
		findings_add(
			to, true, "seccomp",
			"a filter is active; the verbs below show what it forbids; remove it with docker run --security-opt seccomp=unconfined");
	else
		findings_add(to, true, "seccomp", "no filter");
	findings_add(to, true, "security module", "%s",
		     *self->confinement
			     ? self->confinement
			     : "none is named in /proc; Landlock and others may still deny access");
	findings_add(
		to, true, "user namespace",
		self->inner_user
			? "not the initial one: capabilities of gospect apply only to processes in it"
			: "the initial one");
	findings_add(to, true, "pid namespace",
		     self->inner_pid ? "not the initial one: processes outside it are invisible"
				     : "the initial one");
	access_hidepid(hidepid, sizeof(hidepid));
	if (!*hidepid || !strcmp(hidepid, "0") || !strcmp(hidepid, "off"))
		findings_add(to, true, "hidepid", "off: /proc shows all processes");
	else
		findings_add(to, has(self, CAP_SYS_PTRACE), "hidepid",
			     "%s: /proc hides processes of other users%s%s", hidepid,
			     has(self, CAP_SYS_PTRACE) ? ", except from CAP_SYS_PTRACE"
						       : "; run gospect ",
			     has(self, CAP_SYS_PTRACE) ? "" : access_remedy(self, CAP_SYS_PTRACE));
}

/* Tries an operation on a child process; the caller frees the result. */
static struct error *must_check find_probe(const struct findings *to, const char *name,
					   const char *works, struct error *err)
{
	findings_add(to, !err, name, "%s", err ? err->message : works);
	return err;
}

/* Whether verbs can read processes that are not children; a test on a child cannot show that. */
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

static void find_verbs(const struct findings *to, const struct access_self *self,
		       const struct error *memory, const struct error *perf,
		       const struct error *ptrace)
{
	_cleanup_error_ struct error *far = reach(self), *no_agent = findings_agent();
	const char *whose =
		has(self, CAP_SYS_PTRACE)
			? "reads the memory of any process"
			: "reads the memory of this user's processes; other users' processes "
			  "require CAP_SYS_PTRACE";
	const struct error *read = memory ? memory : far, *trace = no_agent ? no_agent : ptrace;

	findings_add_readers(to, whose, read);
	findings_add_verb(to, "record, on-CPU",
			  "the kernel samples running threads (perf_event_open)",
			  read ? read : perf);
	findings_add_verb(to, "trace", "stops the program briefly and writes to it (ptrace)",
			  read ? read : trace);
	findings_add_verb(
		to, "offcpu",
		trace ? "samples goroutines like record; measures exactly where trace works"
		      : "traces the program: exact times of each request",
		read);
}

static void look_at_machine(const struct findings *to)
{
	_cleanup_error_ struct error *memory = NULL, *fast = NULL, *ptrace = NULL, *perf = NULL,
				     *bpf = NULL;
	struct access_self self;

	access_self_read(&self);
	find_kernel(to);
	find_user(to, &self);
	find_capabilities(to, &self);
	find_yama(to, &self);
	find_perf_level(to, &self);
	find_kernel_symbols(to);
	find_lockdown(to);
	find_confinement(to, &self);
	memory = find_probe(to, "reading", "the memory of a child process", probe_memory());
	fast = find_probe(to, "process_vm_readv", "works on a child process",
			  probe_process_vm_readv());
	if (fast && !memory)
		findings_add(to, true, "",
			     "gospect reads /proc/PID/mem instead, which takes more CPU time");
	ptrace = find_probe(to, "ptrace", "works on a child process", probe_ptrace());
	perf = find_probe(to, "perf_event_open", "samples a child process (cpu-clock)",
			  probe_perf_events());
	bpf = find_probe(to, "bpf", "copies labels when each sample is taken (record)",
			 probe_bpf());
	if (bpf)
		findings_add(
			to, true, "",
			"labels of running goroutines are read some milliseconds late instead");
	find_verbs(to, &self, memory, perf, ptrace);
}

void gospect_doctor_machine(void (*finding)(void *arg, const struct gospect_finding *finding),
			    void *arg)
{
	look_at_machine(&(const struct findings){finding, arg});
}
