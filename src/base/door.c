#include "base/door.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ALWAYS (O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)

static int open_directly(const char *path, int flags)
{
	return open(path, flags | ALWAYS);
}

static int perf_event_directly(const struct perf_event_attr *attr, pid_t thread, int cpu)
{
	return syscall(SYS_perf_event_open, attr, thread, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

static const char *temporary_folder(unsigned int i)
{
	const char *folders[] = {getenv("TMPDIR"), "/var/tmp", "/tmp"};

	return i < 3 && folders[i] && *folders[i] ? folders[i] : NULL;
}

static int temporary_directly(unsigned int folder)
{
	const char *path = temporary_folder(folder);

	if (path)
		return open(path, O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600);
	errno = ENOENT;
	return -1;
}

static const struct door direct = {open_directly, perf_event_directly, temporary_directly, NULL};
static const struct door *current = &direct;

void door_call_drop(struct door_call *call)
{
	for (size_t i = 0; i < call->fd_count; i++)
		close(call->fds[i]);
	call->fd_count = 0;
}

const struct door *door_direct(void)
{
	return &direct;
}

void door_set(const struct door *door)
{
	current = door ? door : &direct;
}

int door_open(const char *path, int flags)
{
	return current->open(path, flags);
}

int door_openat(int folder, const char *path, const char *name, int flags)
{
	char whole[PATH_MAX];

	if (current == &direct)
		return openat(folder, name, flags | ALWAYS);
	if (snprintf(whole, sizeof(whole), "%s/%s", path, name) >= (int)sizeof(whole)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	return current->open(whole, flags);
}

FILE *door_fopen(const char *path)
{
	int fd = door_open(path, 0);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");

	if (fd >= 0 && !f)
		close(fd);
	return f;
}

DIR *door_opendir(const char *path)
{
	int fd = door_open(path, O_DIRECTORY);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (fd >= 0 && !dir)
		close(fd);
	return dir;
}

int door_perf_event(const struct perf_event_attr *attr, pid_t thread, int cpu)
{
	return current->perf_event(attr, thread, cpu);
}

int door_temporary(const char **ret_folder)
{
	int fd = -1;

	for (unsigned int i = 0; fd < 0 && i < 3; i++) {
		if (!temporary_folder(i))
			continue;
		*ret_folder = temporary_folder(i);
		fd = current->temporary(i);
	}
	return fd;
}

bool door_is_brokered(void)
{
	return current->call;
}

struct error *door_call(enum door_service service, struct door_call *call)
{
	return current->call(service, call);
}
