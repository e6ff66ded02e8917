/* /proc/PID/status, a line at a time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "target/ops.h"

bool target_status_line(pid_t pid, const char *name, char *value, size_t size)
{
	_cleanup_fclose_ FILE *f = NULL;
	char path[32], line[512];
	size_t n = strlen(name);

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "re");
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
