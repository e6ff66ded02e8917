/* What /proc says of a process or of one of its threads, whose ids it takes alike. */
#ifndef INJECT_STATUS_H
#define INJECT_STATUS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* It has ended, and is only waited for by its parent. Its first thread may have ended before others
 * that run on. */
bool process_is_dead(pid_t pid);
bool process_has_first_thread(pid_t pid);
/* The first of its threads that has not ended: only by that its memory can be opened. */
pid_t process_living_thread(pid_t pid);
/* When this process began, as field 22 of /proc/PID/stat; 0: there is none. */
uint64_t process_start(pid_t pid);

/* A system call filter (seccomp) decides about this thread's system calls. */
bool thread_is_filtered(pid_t id);
/* To whom the files belong that this thread makes; (uid_t)-1: there is no such thread. */
uid_t thread_user(pid_t id);

#endif
