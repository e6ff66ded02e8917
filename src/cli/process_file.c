#include "cli/process_file.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct error *process_file_name(pid_t pid, char **ret)
{
	static const char deleted[] = " (deleted)";
	char link[32], path[PATH_MAX];
	const char *slash, *name;
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/%d/exe", pid);
	n = readlink(link, path, sizeof(path) - 1);
	path[n < 0 ? 0 : n] = 0;
	if (n > (ssize_t)strlen(deleted) && !strcmp(path + n - strlen(deleted), deleted))
		path[n - strlen(deleted)] = 0;
	slash = strrchr(path, '/');
	name = slash ? slash + 1 : path;
	*ret = strdup(*name ? name : "process");
	return *ret ? NULL : &error_no_memory;
}
