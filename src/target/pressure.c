#include "target/pressure.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* Its first line: "some avg10=15.91 avg60=39.35 avg300=43.77 total=26149680274". */
static double read_pressure(const char *path)
{
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	double percent;

	return f && fscanf(f, "some avg10=%lf", &percent) == 1 ? percent : -1;
}

/* Where its cgroup of version 2 is, below the mount: "0::/system.slice/x.service". */
static bool read_group(const char *root, pid_t pid, char *ret, size_t size)
{
	_cleanup_fclose_ FILE *f = NULL;
	char path[PATH_MAX], line[PATH_MAX];

	snprintf(path, sizeof(path), "%s/proc/%d/cgroup", root, pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		if (strncmp(line, "0::", 3))
			continue;
		line[strcspn(line, "\n")] = '\0';
		return (size_t)snprintf(ret, size, "%s", line + 3) < size;
	}
	return false;
}

double cpu_pressure(const char *root, pid_t pid)
{
	static const char *const mounts[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
	char path[2 * PATH_MAX], group[PATH_MAX];
	double percent = -1;

	if (read_group(root, pid, group, sizeof(group)))
		for (size_t i = 0; percent < 0 && i < 2; i++) {
			snprintf(path, sizeof(path), "%s%s%s/cpu.pressure", root, mounts[i], group);
			percent = read_pressure(path);
		}
	if (percent >= 0)
		return percent;
	snprintf(path, sizeof(path), "%s/proc/pressure/cpu", root);
	return read_pressure(path);
}
