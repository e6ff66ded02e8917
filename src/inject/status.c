#include "inject/status.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/door.h"
#include "target/proc_status.h"

uint64_t process_start(pid_t pid)
{
	unsigned long long start = 0;
	char path[32], fields[1024];

	snprintf(path, sizeof(path), "/proc/%d", pid);
	if (!target_stat_fields(path, fields, sizeof(fields)))
		return 0;
	if (sscanf(fields,
		   " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
		   "%*d %*d %llu",
		   &start) != 1)
		return 0;
	return start;
}

/* The line of /proc/ID/status that begins with the key, without that; "" when there is none. */
static void read_status(pid_t id, const char *key, char ret[256])
{
	_cleanup_fclose_ FILE *f = NULL;
	size_t n = strlen(key);
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/status", id);
	f = door_fopen(path);
	while (f && fgets(ret, 256, f)) {
		if (strncmp(ret, key, n) || ret[n] != ':')
			continue;
		memmove(ret, ret + n + 1, strlen(ret + n + 1) + 1);
		return;
	}
	ret[0] = '\0';
}

/* What State says begins with a letter. */
static bool has_ended(const char *state)
{
	state += strspn(state, " \t");
	return *state == 'Z' || *state == 'X';
}

bool process_is_dead(pid_t pid)
{
	char state[256], threads[256];

	read_status(pid, "State", state);
	read_status(pid, "Threads", threads);
	return !state[0] || (has_ended(state) && strtoul(threads, NULL, 10) < 2);
}

bool process_has_first_thread(pid_t pid)
{
	char state[256];

	read_status(pid, "State", state);
	return state[0] && !has_ended(state);
}

pid_t process_living_thread(pid_t pid)
{
	struct dirent *entry;
	pid_t living = 0;
	char path[64];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = door_opendir(path);
	while (dir && !living && (entry = readdir(dir))) {
		char state[256] = "";

		if (atoi(entry->d_name) > 0)
			read_status(atoi(entry->d_name), "State", state);
		if (state[0] && !has_ended(state))
			living = atoi(entry->d_name);
	}
	if (dir)
		closedir(dir);
	return living ?: pid;
}

bool thread_is_filtered(pid_t id)
{
	char mode[256];

	read_status(id, "Seccomp", mode);
	return strtoul(mode, NULL, 10);
}

uid_t thread_user(pid_t id)
{
	char users[256];
	unsigned int user;

	/* The real, the effective, the saved one and that of the file system. */
	read_status(id, "Uid", users);
	return sscanf(users, "%*u %*u %*u %u", &user) == 1 ? user : (uid_t)-1;
}
