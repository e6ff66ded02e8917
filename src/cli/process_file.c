#include "cli/process_file.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DELETED " (deleted)"

/* /proc/PID/comm, which every user may read. */
static void read_comm(pid_t pid, char *ret, size_t size)
{
	char path[32];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	f = fopen(path, "re");
	if (!f || !fgets(ret, (int)size, f))
		*ret = '\0';
	ret[strcspn(ret, "\n")] = '\0';
	if (f)
		fclose(f);
}

struct error *process_file_name(pid_t pid, char **ret)
{
	char link[32], path[PATH_MAX], comm[32];
	const char *slash, *name;
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/%d/exe", pid);
	n = readlink(link, path, sizeof(path) - 1);
	path[n < 0 ? 0 : n] = 0;
	if (n > (ssize_t)strlen(DELETED) && !strcmp(path + n - strlen(DELETED), DELETED))
		path[n - strlen(DELETED)] = 0;
	slash = strrchr(path, '/');
	name = slash ? slash + 1 : path;
	if (!*name || !strncmp(path, "/memfd:", strlen("/memfd:"))) {
		read_comm(pid, comm, sizeof(comm));
		name = strchr(comm, '/') ? "" : comm;
	}
	*ret = strdup(*name ? name : "process");
	return *ret ? NULL : &error_no_memory;
}

const char *process_reason(const char *problem)
{
	const char *colon = strstr(problem, ": ");

	return !strncmp(problem, "cannot ", 7) && colon ? colon + 2 : problem;
}
