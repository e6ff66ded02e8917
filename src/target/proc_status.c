#include "target/proc_status.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/door.h"
#include "target/target.h"

/* Flags in the ninth field of /proc/PID/stat (Linux, include/linux/sched.h). */
#define PF_KTHREAD 0x00200000
#define PF_EXITING 0x00000004

/* ---- /proc ---- */

/* Every user may list it, so this needs no door. */
DIR *process_folder_open(void)
{
	return opendir("/proc");
}

/* The next entry whose name is a number. */
static pid_t next_id(DIR *folder)
{
	struct dirent *entry;

	while ((entry = readdir(folder)))
		if (atoi(entry->d_name) > 0)
			return atoi(entry->d_name);
	return 0;
}

pid_t process_folder_next(DIR *folder)
{
	return next_id(folder);
}

/* ---- /proc/PID/cmdline, comm, exe ---- */

static size_t read_file(pid_t pid, const char *name, char *ret, size_t size)
{
	_cleanup_close_ int fd = -1;
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	fd = door_open(path, 0);
	n = fd < 0 ? 0 : read(fd, ret, size - 1);
	n = n < 0 ? 0 : n;
	ret[n] = '\0';
	return n;
}

void process_command(pid_t pid, char *ret, size_t size)
{
	size_t n = read_file(pid, "cmdline", ret, size);

	while (n > 0 && !ret[n - 1])
		n--;
	for (size_t i = 0; i < n; i++)
		if (!ret[i])
			ret[i] = ' ';
}

void process_comm(pid_t pid, char ret[16])
{
	read_file(pid, "comm", ret, 16);
	ret[strcspn(ret, "\n")] = '\0';
}

void process_exe_path(pid_t pid, char ret[PROCESS_EXE_PATH])
{
	snprintf(ret, PROCESS_EXE_PATH, "/proc/%d/exe", pid);
}

bool process_exe(pid_t pid, char ret[PATH_MAX])
{
	char path[PROCESS_EXE_PATH];
	ssize_t n;

	process_exe_path(pid, path);
	n = readlink(path, ret, PATH_MAX - 1);
	if (n >= 0)
		ret[n] = '\0';
	return n >= 0;
}

/* ---- /proc/PID/status ---- */

bool target_status_line(pid_t pid, const char *name, char *value, size_t size)
{
	_cleanup_fclose_ FILE *f = NULL;
	char path[32], line[512];
	size_t n = strlen(name);

	snprintf(path, sizeof(path), pid ? "/proc/%d/status" : "/proc/self/status", pid);
	f = door_fopen(path);
	while (f && fgets(line, sizeof(line), f)) {
		if (strncmp(line, name, n) || line[n] != ':')
			continue;
		snprintf(value, size, "%s", line + n + 1 + strspn(line + n + 1, "\t "));
		return true;
	}
	return false;
}

long target_status_number(pid_t pid, const char *name)
{
	char value[128];

	return target_status_line(pid, name, value, sizeof(value)) ? atol(value) : -1;
}

uint64_t target_memory(const struct target *t)
{
	pid_t pid = target_pid(t);
	long resident = pid ? target_status_number(pid, "VmRSS") : -1;
	long swapped = pid ? target_status_number(pid, "VmSwap") : -1;

	if (resident < 0)
		return UINT64_MAX;
	return ((uint64_t)resident + (swapped < 0 ? 0 : swapped)) << 10;
}

char target_state(pid_t pid)
{
	char value[128];

	return target_status_line(pid, "State", value, sizeof(value)) ? value[0] : 0;
}

/* Its ids in each pid namespace, the outermost first, behind one another with tabs. */
static bool read_ids(pid_t pid, char *ret, size_t size)
{
	if (!target_status_line(pid, "NSpid", ret, size))
		return false;
	ret[strcspn(ret, "\n")] = '\0';
	return true;
}

pid_t target_inner_id(pid_t pid)
{
	char value[512], *last;

	if (!read_ids(pid, value, sizeof(value)))
		return pid;
	last = strrchr(value, '\t');
	return atoi(last ? last + 1 : value);
}

bool target_is_nested(pid_t pid)
{
	char value[512];

	return read_ids(pid, value, sizeof(value)) && strchr(value, '\t');
}

static bool has_ended(char state)
{
	return state == 'Z' || state == 'X';
}

static bool looks_dead(pid_t pid)
{
	char state = target_state(pid);

	return !state || (has_ended(state) && target_status_number(pid, "Threads") < 2);
}

/* The two numbers are of two moments, and an exec may end between them. */
bool process_is_dead(pid_t pid)
{
	return looks_dead(pid) && looks_dead(pid);
}

bool process_has_first_thread(pid_t pid)
{
	char state = target_state(pid);

	return state && !has_ended(state);
}

pid_t thread_tracer(pid_t id)
{
	long tracer = target_status_number(id, "TracerPid");

	return tracer > 0 ? (pid_t)tracer : 0;
}

bool thread_is_filtered(pid_t id)
{
	return target_status_number(id, "Seccomp") > 0;
}

uid_t thread_user(pid_t id)
{
	char users[256];
	unsigned int user;

	/* The real, the effective, the saved one and that of the file system. */
	if (!target_status_line(id, "Uid", users, sizeof(users)))
		return (uid_t)-1;
	return sscanf(users, "%*u %*u %*u %u", &user) == 1 ? user : (uid_t)-1;
}

/* ---- /proc/PID/stat ---- */

/* Numbers of fields, as proc(5) has them. */
enum { STAT_STATE = 3, STAT_FLAGS = 9, STAT_PENDING = 31, STAT_EXIT_SIGNAL = 38 };

/* The part of DIRECTORY/stat behind the name: " S 1 ...". `folder` is /proc/PID or
 * /proc/PID/task/ID. False, and "": no such process. */
static bool stat_fields(const char *folder, char *ret, size_t size)
{
	_cleanup_fclose_ FILE *f = NULL;
	char path[64], *name_end;
	size_t n;

	snprintf(path, sizeof(path), "%s/stat", folder);
	f = door_fopen(path);
	n = f ? fread(ret, 1, size - 1, f) : 0;
	ret[n] = '\0';
	name_end = strrchr(ret, ')');
	memmove(ret, name_end ? name_end + 1 : ret + n, name_end ? strlen(name_end) : 1);
	return ret[0];
}

/* From the space before a field of stat_fields() on; NULL: there is no such field. */
static const char *stat_field(const char *fields, int number)
{
	for (int i = STAT_STATE; i < number && fields; i++)
		fields = strchr(fields + 1, ' ');
	return fields;
}

bool target_is_kernel_thread(pid_t pid)
{
	char path[32], fields[1024];
	unsigned int flags;

	snprintf(path, sizeof(path), "/proc/%d", pid);
	return stat_fields(path, fields, sizeof(fields)) &&
	       sscanf(fields, " %*c %*d %*d %*d %*d %*d %u", &flags) == 1 && flags & PF_KTHREAD;
}

pid_t process_parent(pid_t pid)
{
	char path[32], fields[1024];
	int parent = 0;

	snprintf(path, sizeof(path), "/proc/%d", pid);
	if (!stat_fields(path, fields, sizeof(fields)) || sscanf(fields, " %*c %d", &parent) != 1)
		return 0;
	return parent;
}

uint64_t process_start(pid_t pid)
{
	unsigned long long start = 0;
	char path[32], fields[1024];

	snprintf(path, sizeof(path), "/proc/%d", pid);
	if (!stat_fields(path, fields, sizeof(fields)))
		return 0;
	if (sscanf(fields,
		   " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
		   "%*d %*d %llu",
		   &start) != 1)
		return 0;
	return start;
}

bool process_parentage(pid_t pid, struct process_parentage *ret)
{
	char path[32], fields[1024];
	const char *at;

	snprintf(path, sizeof(path), "/proc/%d", pid);
	if (!stat_fields(path, fields, sizeof(fields)) ||
	    sscanf(fields, " %c %d", &ret->state, &ret->parent) != 2)
		return false;
	at = stat_field(fields, STAT_EXIT_SIGNAL);
	return at && sscanf(at, " %d", &ret->exit_signal) == 1;
}

double process_cpu_seconds(pid_t pid)
{
	unsigned long long user, system;
	char path[32], fields[1024];

	snprintf(path, sizeof(path), "/proc/%d", pid);
	if (!stat_fields(path, fields, sizeof(fields)) ||
	    sscanf(fields, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user,
		   &system) != 2)
		return -1;
	return (double)(user + system) / sysconf(_SC_CLK_TCK);
}

char thread_state(pid_t pid, pid_t id)
{
	char path[64], fields[1024];

	snprintf(path, sizeof(path), "/proc/%d/task/%d", pid, id);
	return stat_fields(path, fields, sizeof(fields)) ? fields[1] : 0;
}

bool thread_is_ending(pid_t pid, pid_t id)
{
	unsigned long flags = 0, pending = 0;
	char path[64], fields[1024];
	const char *at;

	snprintf(path, sizeof(path), "/proc/%d/task/%d", pid, id);
	if (!stat_fields(path, fields, sizeof(fields)))
		return false;
	at = stat_field(fields, STAT_FLAGS);
	if (at)
		sscanf(at, " %lu", &flags);
	at = stat_field(fields, STAT_PENDING);
	if (at)
		sscanf(at, " %lu", &pending);
	return flags & PF_EXITING || pending & 1ul << (SIGKILL - 1);
}

/* ---- /proc/PID/task ---- */

DIR *task_folder_open(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), pid ? "/proc/%d/task" : "/proc/self/task", pid);
	return door_opendir(path);
}

pid_t task_folder_next(DIR *folder)
{
	return next_id(folder);
}

pid_t process_living_thread(pid_t pid)
{
	_cleanup_closedir_ DIR *folder = task_folder_open(pid);
	pid_t id;

	while (folder && (id = task_folder_next(folder)))
		if (process_has_first_thread(id))
			return id;
	return pid;
}

long thread_syscall(pid_t pid, pid_t id)
{
	_cleanup_fclose_ FILE *f = NULL;
	char path[64];
	long number;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", pid, id);
	f = door_fopen(path);
	return f && fscanf(f, "%ld", &number) == 1 ? number : -1;
}

/* ---- /proc/PID/fd ---- */

DIR *descriptor_folder_open(pid_t pid)
{
	char path[64];

	if (!pid)
		return opendir("/proc/self/fd");
	snprintf(path, sizeof(path), "/proc/%d/fd", process_living_thread(pid));
	return door_opendir(path);
}

int descriptor_folder_next(DIR *folder, char *to, size_t size)
{
	struct dirent *entry;

	while ((entry = readdir(folder))) {
		ssize_t n = readlinkat(dirfd(folder), entry->d_name, to, size - 1);

		if (n <= 0)
			continue;
		to[n] = '\0';
		return atoi(entry->d_name);
	}
	return -1;
}
