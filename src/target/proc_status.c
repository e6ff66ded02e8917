/* /proc/PID/status, a line at a time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/door.h"
#include "target/ops.h"
#include "target/proc_status.h"

/* Of the flags that are the ninth field of /proc/PID/stat (Linux, include/linux/sched.h). */
#define PF_KTHREAD 0x00200000

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

bool target_stat_fields(const char *folder, char *ret, size_t size)
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

bool target_is_kernel_thread(pid_t pid)
{
	char path[32], fields[1024];
	unsigned int flags;

	snprintf(path, sizeof(path), "/proc/%d", pid);
	return target_stat_fields(path, fields, sizeof(fields)) &&
	       sscanf(fields, " %*c %*d %*d %*d %*d %*d %u", &flags) == 1 && flags & PF_KTHREAD;
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
