#include "sandbox/broker.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "sandbox/message.h"

#define ALWAYS (O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)

struct broker {
	const struct broker_policy *policy;
	int process; /* the directory /proc/PID; -1: none */
};

/* Files of the target, by name, that the kernel writes. */
static const char *const process_files[] = {
	"maps",   "mem",     "auxv",   "status",  "stat",  "comm",
	"cgroup", "cmdline", "limits", "uid_map", "smaps", "pagemap",
};

/* For any thread: everybody may read these. */
static const char *const thread_files[] = {"status", "stat", "comm", "syscall", "uid_map"};

static const char *const machine_files[] = {
	"/proc/kallsyms",     "/proc/cpuinfo",     "/proc/stat",      "/proc/meminfo",
	"/proc/self/status",  "/proc/self/cgroup", "/proc/self/stat", "/proc/self/mountinfo",
	"/proc/self/uid_map", "/proc/loadavg",
};

static const char *const machine_folders[] = {"/proc/sys/", "/sys/", "/proc/self/attr/"};

struct error *broker_create(const struct broker_policy *policy, struct broker **ret)
{
	struct broker *b = malloc(sizeof(*b));
	char path[32];

	if (!b)
		return &error_no_memory;
	*b = (struct broker){policy, -1};
	snprintf(path, sizeof(path), "/proc/%d", policy->pid);
	if (policy->pid)
		b->process = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	*ret = b;
	return NULL;
}

void broker_destroy(struct broker *b)
{
	if (!b)
		return;
	cleanup_close(&b->process);
	free(b);
}

/* ---- permitted paths ---- */

static bool is_one_of(const char *name, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

static bool is_named(const struct broker *b, const char *path)
{
	for (const char *const *name = b->policy->named; name && *name; name++)
		if (!strcmp(*name, path))
			return true;
	return false;
}

static bool is_of_machine(const char *path)
{
	if (strstr(path, "/.."))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(machine_folders); i++)
		if (!strncmp(path, machine_folders[i], strlen(machine_folders[i])))
			return true;
	return is_one_of(path, machine_files, ARRAY_SIZE(machine_files));
}

/* The rest behind /proc/N/, or NULL; *ret_id is N. */
static const char *of_process(const char *path, long *ret_id)
{
	char *end;

	if (strncmp(path, "/proc/", 6) || path[6] < '1' || path[6] > '9')
		return NULL;
	*ret_id = strtol(path + 6, &end, 10);
	if (*end && *end != '/')
		return NULL;
	return *end ? end + 1 : end;
}

static bool is_of_thread(const char *rest)
{
	char *end;

	if (is_one_of(rest, thread_files, ARRAY_SIZE(thread_files)))
		return true;
	if (strncmp(rest, "task/", 5) || strtol(rest + 5, &end, 10) <= 0 || *end != '/')
		return false;
	return is_one_of(end + 1, thread_files, ARRAY_SIZE(thread_files));
}

/* Whether it is the maps of one of the target's threads. */
static bool is_maps_of_thread(const char *rest)
{
	char *end;

	return !strncmp(rest, "task/", 5) && strtol(rest + 5, &end, 10) > 0 &&
	       !strcmp(end, "/maps");
}

/* ---- opening ---- */

/* Checks the kind of file before it opens it: opening a device may have effects. */
static int open_checked(int folder, const char *path, int flags, bool any_content)
{
	_cleanup_close_ int handle =
		openat(folder, path, O_PATH | O_CLOEXEC | (flags & O_NOFOLLOW));
	char link[32], magic[SELFMAG];
	struct stat st;
	int fd;

	if (handle < 0 || fstat(handle, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return -EMEDIUMTYPE; /* as regular_file_open() says it */
	snprintf(link, sizeof(link), "/proc/self/fd/%d", handle);
	fd = open(link, (flags & O_DIRECTORY) | ALWAYS);
	if (fd < 0)
		return -errno;
	if (S_ISDIR(st.st_mode) || any_content ||
	    (pread(fd, magic, SELFMAG, 0) == SELFMAG && !memcmp(magic, ELFMAG, SELFMAG)))
		return fd;
	close(fd);
	return -EACCES;
}

static int open_kernel_file(int folder, const char *path, int flags)
{
	int fd = openat(folder, path, (flags & O_DIRECTORY) | ALWAYS);

	return fd < 0 ? -errno : fd;
}

static int open_of_target(const struct broker *b, const char *rest, int flags)
{
	if (!*rest || !strcmp(rest, "task"))
		return open_kernel_file(b->process, *rest ? rest : ".", O_DIRECTORY);
	if (is_one_of(rest, process_files, ARRAY_SIZE(process_files)) || is_of_thread(rest) ||
	    is_maps_of_thread(rest))
		return open_kernel_file(b->process, rest, flags);
	if (!strcmp(rest, "exe") || !strncmp(rest, "map_files/", 10) || !strncmp(rest, "root/", 5))
		return open_checked(b->process, rest, flags, false);
	return -EACCES;
}

static int open_path(const struct broker *b, const char *path, int flags)
{
	long id;
	const char *rest = of_process(path, &id);

	if (path[0] != '/' && !is_named(b, path))
		return open_checked(AT_FDCWD, path, flags, false);
	if (is_named(b, path))
		return open_checked(AT_FDCWD, path, flags, true);
	if (is_of_machine(path))
		return open_kernel_file(AT_FDCWD, path, flags);
	if (rest && id == b->policy->pid)
		return b->process < 0 ? -ENOENT : open_of_target(b, rest, flags);
	if (rest && is_of_thread(rest))
		return open_kernel_file(AT_FDCWD, path, flags);
	return open_checked(AT_FDCWD, path, flags, false);
}

/* ---- answers ---- */

static void give(struct message *m, int fd)
{
	m->a = fd < 0 ? -fd : 0;
	m->call.size = 0;
	m->call.fd_count = fd >= 0;
	m->call.fds[0] = fd;
}

static int open_asked(const struct broker *b, const struct message *m)
{
	const char *path = (const char *)m->call.bytes;
	bool is_text = m->call.size && !path[m->call.size - 1];

	return is_text ? open_path(b, path, m->a) : -EINVAL;
}

/* Permits the target's threads; and the output of gospect's eBPF program, which has no thread. */
static int open_perf_event(const struct broker *b, const struct message *m)
{
	struct perf_event_attr attr;
	char path[32];
	int fd;

	if (m->call.size != sizeof(attr))
		return -EINVAL;
	memcpy(&attr, m->call.bytes, sizeof(attr));
	snprintf(path, sizeof(path), "task/%d", m->a);
	if (attr.size != sizeof(attr) || attr.type != PERF_TYPE_SOFTWARE)
		return -EACCES;
	if (m->a == -1 ? attr.config != PERF_COUNT_SW_BPF_OUTPUT
		       : b->process < 0 || faccessat(b->process, path, F_OK, 0))
		return m->a == -1 ? -EACCES : -ESRCH;
	fd = door_direct()->perf_event(&attr, m->a, m->b);
	return fd < 0 ? -errno : fd;
}

static int open_temporary(const struct message *m)
{
	int fd = door_direct()->temporary(m->a);

	return fd < 0 ? -errno : fd;
}

static void answer_with_descriptor(const struct broker *b, struct message *m)
{
	door_call_drop(&m->call);
	if (b->policy->serves_alone)
		give(m, -EACCES);
	else if (m->kind == MESSAGE_OPEN)
		give(m, open_asked(b, m));
	else if (m->kind == MESSAGE_PERF_EVENT)
		give(m, open_perf_event(b, m));
	else
		give(m, m->kind == MESSAGE_TEMPORARY ? open_temporary(m) : -EINVAL);
}

static void answer_service(const struct broker *b, struct message *m)
{
	bool known = m->a >= 0 && m->a < DOOR_SERVICES && b->policy->services[m->a].serve;
	const struct broker_service *service = known ? &b->policy->services[m->a] : NULL;
	struct error *err;

	if (!known)
		door_call_drop(&m->call);
	err = known ? service->serve(service->arg, &m->call)
		    : error_format(ERROR_FAILED,
				   "internal error: unknown request to the privileged process");
	m->a = err ? 1 : 0;
	m->b = err ? (int)err->code : 0;
	if (err) {
		m->call.fd_count = 0;
		m->call.size = strnlen(err->message, sizeof(m->call.bytes) - 1) + 1;
		memcpy(m->call.bytes, err->message, m->call.size);
		m->call.bytes[m->call.size - 1] = '\0';
	}
	error_destroy(err);
}

bool broker_answer(struct broker *b, int socket)
{
	struct message m;
	bool sent;

	if (!message_receive(socket, &m))
		return false;
	if (m.kind == MESSAGE_SERVICE)
		answer_service(b, &m);
	else
		answer_with_descriptor(b, &m);
	sent = message_send(socket, &m);
	door_call_drop(&m.call);
	return sent;
}
