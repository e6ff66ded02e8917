/* The names of a process that `-p NAME` accepts. */
#ifndef LIB_PROCESS_NAME_H
#define LIB_PROCESS_NAME_H

#include <stdbool.h>
#include <sys/types.h>

/* Bytes as the kernel gives them, truncated. */
struct process_name {
	char program[256]; /* its program's file without folders; "": not readable, or a memfd */
	char comm[16];     /* /proc/PID/comm: at most 15 bytes of a name */
};

/* False: there is no such process, or it has no program, like a thread of the kernel. */
bool process_name_read(pid_t pid, struct process_name *ret);
/* Whether this is a name of it. Where the program has no name, this one need match only
 * as far as comm has room. */
bool process_name_is(const struct process_name *name, const char *wanted);

#endif
