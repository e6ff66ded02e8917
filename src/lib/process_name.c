#include "lib/process_name.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "target/proc_status.h"

/* The suffix that the kernel appends to the path of a removed file (d_path()). */
#define DELETED " (deleted)"
/* The path of a program that runs from a memfd (memfd_create(2)): what follows names no file. */
#define MEMFD "/memfd:"

static void set_program(char *path, struct process_name *ret)
{
	size_t n = strlen(path), k = strlen(DELETED);
	const char *slash;

	if (!strncmp(path, MEMFD, strlen(MEMFD)))
		return;
	if (n > k && !strcmp(path + n - k, DELETED))
		path[n - k] = 0;
	slash = strrchr(path, '/');
	snprintf(ret->program, sizeof(ret->program), "%.*s", (int)sizeof(ret->program) - 1,
		 slash ? slash + 1 : path);
}

bool process_name_read(pid_t pid, struct process_name *ret)
{
	char path[PATH_MAX];

	*ret = (struct process_name){0};
	if (process_exe(pid, path))
		set_program(path, ret);
	else if ((errno != EACCES && errno != EPERM) || target_is_kernel_thread(pid))
		return false;
	process_comm(pid, ret->comm);
	return true;
}

bool process_name_is(const struct process_name *name, const char *wanted)
{
	size_t room = sizeof(name->comm) - 1;

	if (!strcmp(name->comm, wanted) || !strcmp(name->program, wanted))
		return *wanted;
	return !*name->program && strlen(name->comm) == room && !strncmp(name->comm, wanted, room);
}
