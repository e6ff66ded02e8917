/* Which control groups a process is in, as the kernel writes it in /proc/PID/cgroup. */
#ifndef BASE_CGROUP_H
#define BASE_CGROUP_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* The path of the group in the hierarchy of a controller ("cpu", "memory") of version 1, or, with
 * NULL, in that of version 2. `file` is such a file. False: it has none. */
bool cgroup_find(const char *file, const char *controller, char ret[PATH_MAX]);

/* From a group to the one around it: cuts the last name off its path. False: it is the outermost,
 * whose path has `root` bytes. In a container that may be the process's own group, under another
 * name. */
bool cgroup_leave(char *path, size_t root);

/*
 * The container of a process: the id from its engine (at least 32 hexadecimal digits), or the name
 * of a machine of systemd or LXC. It is in the name of the control group: "/docker/ID",
 * "docker-ID.scope", "cri-containerd-ID.scope", "crio-ID.scope", "libpod-ID.scope",
 * "machine-NAME.scope", "systemd-nspawn@NAME.service", "lxc.payload.NAME". With `begin`, finds
 * the container whose id begins with it, on any level; with NULL, the innermost one. `file` is as
 * above. False: there is none.
 */
#define CGROUP_CONTAINER_SIZE 96
bool cgroup_container(const char *file, const char *begin, char ret[CGROUP_CONTAINER_SIZE]);

/* "cpu,cpuacct" has the word "cpu". */
bool cgroup_has_word(const char *list, const char *word);

#endif
