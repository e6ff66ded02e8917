/* /proc/PID/status, a line at a time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "target/ops.h"

bool target_status_line(pid_t pid, const char *name, char *value, size_t size)
{
	_cleanup_fclose_ FILE *f = NULL;
	char path[32], line[256];
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

pid_t target_inner_id(pid_t pid)
{
	char value[256], *last;

	if (!target_status_line(pid, "NSpid", value, sizeof(value)))
		return pid;
	value[strcspn(value, "\n")] = '\0';
	last = strrchr(value, '\t');
	return atoi(last ? last + 1 : value);
}
