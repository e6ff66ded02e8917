#include "lib/process_name.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/door.h"
#include "target/proc_status.h"

/* The suffix that the kernel appends to the path of a removed file (d_path()). */
#define DELETED " (deleted)"

static void set_program(char *path, struct process_name *ret)
{
	size_t n = strlen(path), k = strlen(DELETED);
	const char *slash;

	if (n > k && !strcmp(path + n - k, DELETED))
		path[n - k] = 0;
	slash = strrchr(path, '/');
	snprintf(ret->program, sizeof(ret->program), "%s", slash ? slash + 1 : path);
}

static void read_comm(pid_t pid, struct process_name *ret)
{
	_cleanup_close_ int fd = -1;
	char path[32];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	fd = door_open(path, 0);
	n = fd < 0 ? 0 : read(fd, ret->comm, sizeof(ret->comm) - 1);
	ret->comm[n < 0 ? 0 : n] = 0;
	ret->comm[strcspn(ret->comm, "\n")] = 0;
}

bool process_name_read(pid_t pid, struct process_name *ret)
{
	char path[32], target[PATH_MAX];
	ssize_t n;

	*ret = (struct process_name){0};
	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	n = readlink(path, target, sizeof(target) - 1);
	if (n < 0 && ((errno != EACCES && errno != EPERM) || target_is_kernel_thread(pid)))
		return false;
	if (n >= 0) {
		target[n] = 0;
		set_program(target, ret);
	}
	read_comm(pid, ret);
	return true;
}

bool process_name_is(const struct process_name *name, const char *wanted)
{
	size_t room = sizeof(name->comm) - 1;

	if (!strcmp(name->comm, wanted) || !strcmp(name->program, wanted))
		return *wanted;
	return !*name->program && strlen(name->comm) == room && !strncmp(name->comm, wanted, room);
}
