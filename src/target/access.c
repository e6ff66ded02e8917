/* Gathers the facts that access.h explains. All of these files are world-readable. */
#include "target/access.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/door.h"
#include "base/mountinfo.h"
#include "target/ops.h"
#include "target/proc_status.h"

/* include/linux/proc_ns.h: the names of the initial namespaces, on every kernel. */
#define FIRST_USER "user:[4026531837]"
#define FIRST_PID "pid:[4026531836]"

/* How long a process may take to end that is said to run (is_ending()). */
#define ENDING_TRIES 50
#define ENDING_PAUSE_US 10000

/* The beginning of a file, as a string; "" when it cannot be read. */
static void read_text(const char *path, char *ret, size_t size)
{
	_cleanup_close_ int fd = door_open(path, 0);
	ssize_t n = fd < 0 ? -1 : read(fd, ret, size - 1);

	ret[n < 0 ? 0 : n] = '\0';
}

static bool link_differs(const char *path, const char *expected)
{
	char text[64];
	ssize_t n = readlink(path, text, sizeof(text) - 1);

	if (n < 0)
		return false;
	text[n] = '\0';
	return strcmp(text, expected) != 0;
}

static uint64_t status_bits(pid_t pid, const char *name)
{
	char value[64];

	return target_status_line(pid, name, value, sizeof(value)) ? strtoull(value, NULL, 16) : 0;
}

static void status_ids(pid_t pid, const char *name, unsigned int ret[3])
{
	char value[64];

	if (target_status_line(pid, name, value, sizeof(value)))
		sscanf(value, "%u %u %u", &ret[0], &ret[1], &ret[2]);
}

uint64_t access_permitted(pid_t pid)
{
	return status_bits(pid, "CapPrm");
}

static void read_confinement(char *ret, size_t size)
{
	read_text("/proc/self/attr/current", ret, size);
	ret[strcspn(ret, "\n")] = '\0';
	if (!strcmp(ret, "unconfined"))
		*ret = '\0';
}

/* Releases of 2022 and of 2026 both have this version; the release number of the latter ends with
 * "-gvisor", too. */
bool access_in_gvisor(void)
{
	struct utsname name;

	return !uname(&name) && (strstr(name.release, "-gvisor") ||
				 !strcmp(name.version, "#1 SMP Sun Jan 10 15:06:54 PST 2016"));
}

static bool is_filtered(pid_t id)
{
	return target_status_number(id, "Seccomp") == 2;
}

size_t access_filtered_threads(pid_t pid)
{
	_cleanup_closedir_ DIR *folder = task_folder_open(pid);
	size_t count = 0;
	pid_t id;

	if (!folder)
		return is_filtered(pid);
	while ((id = task_folder_next(folder)))
		count += is_filtered(id);
	return count;
}

/* The rights that gospect was started with, even after it has dropped them: "self" is the broker
 * then. */
void access_self_read(struct access_self *ret)
{
	const pid_t pid = 0;

	*ret = (struct access_self){
		.uid = geteuid(),
		.gid = getegid(),
		.capabilities = status_bits(pid, "CapEff"),
		.bounding = status_bits(pid, "CapBnd"),
		.no_new_privs = target_status_number(pid, "NoNewPrivs") == 1,
		.filtered = access_filtered_threads(pid) > 0,
		.inner_user = link_differs("/proc/self/ns/user", FIRST_USER),
		.inner_pid = link_differs("/proc/self/ns/pid", FIRST_PID),
	};
	read_confinement(ret->confinement, sizeof(ret->confinement));
}

/* Only a process that may read this one may read the link ns/user. The uid map is readable, as seen
 * from the reader's namespace: equal maps mean one namespace (except a map of all ids to
 * themselves). */
static bool is_in_other_user_namespace(pid_t pid)
{
	char path[32], ours[1024], theirs[1024];

	snprintf(path, sizeof(path), "/proc/%d/uid_map", pid);
	read_text("/proc/self/uid_map", ours, sizeof(ours));
	read_text(path, theirs, sizeof(theirs));
	return *theirs && strcmp(ours, theirs) != 0;
}

/* The files of an undumpable process belong to root (fs/proc/base.c, task_dump_owner). */
static bool is_undumpable(pid_t pid, uid_t uid)
{
	struct stat st;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	return !stat(path, &st) && st.st_uid != uid;
}

int access_yama_scope(void)
{
	char text[16];

	read_text("/proc/sys/kernel/yama/ptrace_scope", text, sizeof(text));
	return atoi(text);
}

/* gVisor denies a process from the moment on that it begins to end, and says a little longer that
 * it runs. One that we never looked into is denied for another reason. */
static bool is_ending(pid_t pid, bool looked)
{
	bool may = looked && access_in_gvisor();

	for (int i = 0; may && i < ENDING_TRIES && !process_is_dead(pid); i++)
		usleep(ENDING_PAUSE_US);
	return process_is_dead(pid);
}

struct error *target_denied(pid_t pid, bool looked)
{
	struct access_question q = {.object.pid = pid,
				    .yama = access_yama_scope(),
				    .looked = looked};
	struct access_object *o = &q.object;

	if (is_ending(pid, looked))
		return error_format(ERROR_GONE, "process %d has exited", pid);
	access_self_read(&q.self);
	status_ids(pid, "Uid", o->uids);
	status_ids(pid, "Gid", o->gids);
	o->capabilities = access_permitted(pid);
	o->undumpable = is_undumpable(pid, o->uids[1]);
	o->other_user_namespace = is_in_other_user_namespace(pid);
	return access_explain(&q);
}

/* hidepid= of the last mount on /proc, which hides those before it; "" without it. */
void access_hidepid(char *ret, size_t size)
{
	_cleanup_fclose_ FILE *f = door_fopen("/proc/self/mountinfo");
	struct mount_entry m;
	const char *option;

	*ret = '\0';
	while (f && mountinfo_next(f, &m)) {
		if (strcmp(m.point, "/proc") || strcmp(m.type, "proc"))
			continue;
		option = strstr(m.options, "hidepid=");
		option = option ? option + strlen("hidepid=") : "";
		snprintf(ret, size, "%.*s", (int)strcspn(option, ","), option);
	}
}

struct error *target_absent(pid_t pid)
{
	bool exists = !kill(pid, 0) || errno == EPERM;
	struct access_self self;
	char hidepid[16];

	access_self_read(&self);
	access_hidepid(hidepid, sizeof(hidepid));
	return access_explain_absent(&self, pid, exists, hidepid);
}

struct error *target_check_proc(void)
{
	char self[16];
	struct statfs fs;
	ssize_t n = readlink("/proc/self", self, sizeof(self) - 1);

	self[n < 0 ? 0 : n] = '\0';
	if (atoi(self) == getpid())
		return NULL;
	if (statfs("/proc", &fs) || fs.f_type != PROC_SUPER_MAGIC)
		return error_format(
			ERROR_FAILED,
			"cannot find processes: /proc is not mounted; mount it (mount -t proc proc /proc)");
	return error_format(
		ERROR_DENIED,
		"/proc belongs to another pid namespace than gospect, so its process ids are "
		"wrong here; enter both namespaces (nsenter -t PID --mount --pid) or mount /proc "
		"again (mount -t proc proc /proc)");
}
