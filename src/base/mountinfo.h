/* The mounts that a process sees, as the kernel writes them in /proc/PID/mountinfo (proc(5)). */
#ifndef BASE_MOUNTINFO_H
#define BASE_MOUNTINFO_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

struct mount_entry {
	char root[PATH_MAX];  /* the folder of the file system that is mounted */
	char point[PATH_MAX]; /* where it is mounted */
	char type[64];        /* of the file system */
	char options[1024];   /* of the file system; those of the mount are left out */
};

/* The next mount of such a file, in which later mounts hide earlier ones. False: there is no more.
 */
bool mountinfo_next(FILE *f, struct mount_entry *ret);

#endif
