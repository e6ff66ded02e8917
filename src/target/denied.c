#include <linux/capability.h>
#include <stdio.h>
#include <string.h>

#include "base/user_name.h"
#include "target/access.h"

#define OVERFLOW_ID 65534u

static bool has(uint64_t set, int capability)
{
	return set >> capability & 1;
}

const char *access_remedy(const struct access_self *self, int capability)
{
	if (self->uid && !self->no_new_privs && has(self->bounding, capability))
		return "with sudo";
	if (capability == CAP_BPF)
		return "with CAP_BPF and CAP_PERFMON (docker run --cap-add BPF --cap-add PERFMON; "
		       "kubectl debug --profile=sysadmin)";
	if (capability == CAP_SYSLOG)
		return "with CAP_SYSLOG (docker run --cap-add SYSLOG; kubectl debug "
		       "--profile=sysadmin)";
	return capability == CAP_PERFMON
		       ? "with CAP_PERFMON (docker run --cap-add PERFMON; kubectl debug "
			 "--profile=sysadmin)"
		       : "with CAP_SYS_PTRACE (docker run --cap-add SYS_PTRACE; kubectl debug "
			 "--profile=sysadmin)";
}

static const char *ptrace_remedy(const struct access_question *q)
{
	return access_remedy(&q->self, CAP_SYS_PTRACE);
}

struct error *access_serve_user(void *arg, struct door_call *call)
{
	char name[256] = "";
	uid_t uid = 0;
	bool found = call->size == sizeof(uid);

	if (found)
		memcpy(&uid, call->bytes, sizeof(uid));
	found = found && user_name_find(uid, name, sizeof(name));
	door_call_drop(call);
	call->size = found ? strlen(name) : 0;
	memcpy(call->bytes, name, call->size);
	return NULL;
}

/* An unprivileged process asks the broker, which may read the list of users. */
static const char *user_name(uid_t uid, char *buffer, size_t size)
{
	struct door_call call = {.size = sizeof(uid)};
	struct error *err;

	memcpy(call.bytes, &uid, sizeof(uid));
	err = door_is_brokered() ? door_call(DOOR_USER, &call) : access_serve_user(NULL, &call);
	if (!error_dropped(err) && call.size)
		snprintf(buffer, size, "%.*s", (int)call.size, (char *)call.bytes);
	else
		snprintf(buffer, size, "user %u", uid);
	return buffer;
}

/* By number; linux/capability.h. */
static const char *const capability_names[] = {
	"CHOWN",
	"DAC_OVERRIDE",
	"DAC_READ_SEARCH",
	"FOWNER",
	"FSETID",
	"KILL",
	"SETGID",
	"SETUID",
	"SETPCAP",
	"LINUX_IMMUTABLE",
	"NET_BIND_SERVICE",
	"NET_BROADCAST",
	"NET_ADMIN",
	"NET_RAW",
	"IPC_LOCK",
	"IPC_OWNER",
	"SYS_MODULE",
	"SYS_RAWIO",
	"SYS_CHROOT",
	"SYS_PTRACE",
	"SYS_PACCT",
	"SYS_ADMIN",
	"SYS_BOOT",
	"SYS_NICE",
	"SYS_RESOURCE",
	"SYS_TIME",
	"SYS_TTY_CONFIG",
	"MKNOD",
	"LEASE",
	"AUDIT_WRITE",
	"AUDIT_CONTROL",
	"SETFCAP",
	"MAC_OVERRIDE",
	"MAC_ADMIN",
	"SYSLOG",
	"WAKE_ALARM",
	"BLOCK_SUSPEND",
	"AUDIT_READ",
	"PERFMON",
	"BPF",
	"CHECKPOINT_RESTORE",
};

const char *access_capability_name(int capability)
{
	size_t count = sizeof(capability_names) / sizeof(*capability_names);

	return (size_t)capability < count ? capability_names[capability] : NULL;
}

static const char *first_capability(uint64_t set)
{
	return access_capability_name(__builtin_ctzll(set)) ?: "(a new one)";
}

static bool same_user(const struct access_question *q)
{
	for (int i = 0; i < 3; i++)
		if (q->object.uids[i] != q->self.uid || q->object.gids[i] != q->self.gid)
			return false;
	return true;
}

/* Reading is allowed and attaching is not: only Yama and security modules tell the two apart. */
static struct error *explain_yama(const struct access_question *q)
{
	pid_t pid = q->object.pid;

	if (q->yama >= 3)
		return error_format(
			ERROR_DENIED,
			"cannot read process %d: permission denied: kernel.yama.ptrace_scope is "
			"3, which forbids it until the next boot; boot with 2 or less",
			pid);
	if (q->yama == 2)
		return error_format(
			ERROR_DENIED,
			"cannot read process %d: permission denied: kernel.yama.ptrace_scope is "
			"2, which requires CAP_SYS_PTRACE; run gospect %s",
			pid, ptrace_remedy(q));
	return error_format(
		ERROR_DENIED,
		"cannot read process %d: permission denied: kernel.yama.ptrace_scope is 1, which "
		"allows parent processes only; run gospect %s, or set it to 0 on the host",
		pid, ptrace_remedy(q));
}

/* The files auxv and mem are readable by their owner alone (fs/proc/base.c). */
static bool files_are_closed(const struct access_question *q)
{
	uid_t owner = q->object.undumpable ? 0 : q->object.uids[1];

	return q->self.uid != owner && !has(q->self.capabilities, CAP_DAC_OVERRIDE) &&
	       !has(q->self.capabilities, CAP_DAC_READ_SEARCH);
}

static struct error *explain_files(const struct access_question *q)
{
	char name[64];

	return error_format(
		ERROR_DENIED,
		"cannot read process %d: permission denied: it belongs to %s, and gospect has "
		"CAP_SYS_PTRACE but not CAP_DAC_READ_SEARCH, which the files in /proc require; "
		"add it (sudo; docker run --cap-add DAC_READ_SEARCH)",
		q->object.pid, user_name(q->object.uids[1], name, sizeof(name)));
}

static struct error *explain_module(const struct access_question *q)
{
	const char *label = q->self.confinement;

	return error_format(
		ERROR_DENIED,
		"cannot read process %d: permission denied: a security module (SELinux, AppArmor, "
		"Landlock) forbids it%s%s%s; allow it (docker run --security-opt "
		"apparmor=unconfined or label=disable), or run gospect on the host",
		q->object.pid, *label ? " to '" : "", label, *label ? "'" : "");
}

static struct error *explain_user_namespace(const struct access_question *q)
{
	bool have = has(q->self.capabilities, CAP_SYS_PTRACE);

	return error_format(
		ERROR_DENIED,
		"cannot read process %d: permission denied: it is in another user namespace%s; "
		"run gospect with sudo on the host, or in that namespace (nsenter -t %d --user; "
		"docker run --userns=host)",
		q->object.pid, have ? ", where gospect's CAP_SYS_PTRACE has no effect" : "",
		q->object.pid);
}

static struct error *explain_other_user(const struct access_question *q)
{
	const struct access_object *o = &q->object;
	char name[64];

	if (!q->self.uid)
		return error_format(
			ERROR_DENIED,
			"cannot read process %d: permission denied: it belongs to %s, and gospect "
			"is root without CAP_SYS_PTRACE; run gospect %s",
			o->pid, user_name(o->uids[0], name, sizeof(name)), ptrace_remedy(q));
	if (o->uids[0] == q->self.uid)
		return error_format(
			ERROR_DENIED,
			"cannot read process %d: permission denied: its effective or saved user "
			"or group ids differ from gospect's; run gospect %s",
			o->pid, ptrace_remedy(q));
	/* Yama would deny that user, too. */
	return error_format(
		ERROR_DENIED,
		"cannot read process %d: permission denied: it belongs to %s; run gospect %s%s",
		o->pid, user_name(o->uids[0], name, sizeof(name)),
		q->yama ? "" : "as that user or ", ptrace_remedy(q));
}

static struct error *explain_capabilities(const struct access_question *q, uint64_t missing)
{
	return error_format(
		ERROR_DENIED,
		"cannot read process %d: permission denied: it has the capability CAP_%s%s, which "
		"gospect lacks; run gospect %s",
		q->object.pid, first_capability(missing),
		missing & (missing - 1) ? " and others" : "", ptrace_remedy(q));
}

static struct error *explain_undumpable(const struct access_question *q)
{
	return error_format(
		ERROR_DENIED,
		"cannot read process %d: permission denied: it is undumpable (prctl "
		"PR_SET_DUMPABLE, or a change of its user or capabilities); run gospect %s",
		q->object.pid, ptrace_remedy(q));
}

/* In the kernel's order, except that rules without another remedy come first. */
struct error *access_explain(const struct access_question *q)
{
	uint64_t missing = q->object.capabilities & ~q->self.capabilities;
	bool unknown_user = q->self.inner_user && q->object.uids[0] == OVERFLOW_ID;

	if (q->yama >= 3)
		return explain_yama(q);
	if (q->looked && files_are_closed(q))
		return explain_files(q);
	if (q->looked)
		return q->yama ? explain_yama(q) : explain_module(q);
	if (has(q->self.capabilities, CAP_SYS_PTRACE))
		return q->self.inner_user && (q->object.other_user_namespace || unknown_user)
			       ? explain_user_namespace(q)
			       : explain_module(q);
	if (unknown_user)
		return explain_user_namespace(q);
	if (!same_user(q))
		return explain_other_user(q);
	if (q->object.undumpable)
		return explain_undumpable(q);
	if (q->object.other_user_namespace)
		return explain_user_namespace(q);
	if (missing)
		return explain_capabilities(q, missing);
	return q->self.uid ? explain_module(q) : explain_undumpable(q);
}

struct error *access_explain_absent(const struct access_self *self, pid_t pid, bool exists,
				    const char *hidepid)
{
	if (exists && *hidepid)
		return error_format(
			ERROR_DENIED,
			"cannot see process %d: permission denied: it belongs to another user, "
			"and /proc is mounted with hidepid=%s; run gospect as that user or %s, or "
			"remount /proc (mount -o remount,hidepid=0 /proc)",
			pid, hidepid, access_remedy(self, CAP_SYS_PTRACE));
	if (self->inner_pid)
		return error_format(
			ERROR_GONE,
			"no such process: %d is not in gospect's pid namespace; run gospect on "
			"the host or join the container (docker run --pid=container:ID; kubectl "
			"debug --target=CONTAINER; shareProcessNamespace); `gospect ps` lists the "
			"Go processes and their ids here",
			pid);
	return error_format(ERROR_GONE, "no such process: %d; `gospect ps` lists the Go processes",
			    pid);
}
