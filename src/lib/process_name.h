/* The names of a process that `-p NAME` accepts. */
#ifndef LIB_PROCESS_NAME_H
#define LIB_PROCESS_NAME_H

#include <stdbool.h>
#include <sys/types.h>

/* Bytes as the kernel gives them, cut to their room. */
struct process_name {
	char program[256]; /* its program's file without folders; "": that may not be read */
	char comm[16];     /* /proc/PID/comm: at most 15 bytes of a name */
};

/* False: there is no such process, or it has no program, as a thread of the kernel. */
bool process_name_read(pid_t pid, struct process_name *ret);
/* Whether it is called so. Where the program's name may not be read, the part of it counts that
 * comm has room for. */
bool process_name_is(const struct process_name *name, const char *wanted);

#endif
