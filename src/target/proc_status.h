/*
 * The reader of the kernel's files about a process or thread in /proc: status, stat, names, the
 * lists of processes, threads and descriptors. Names in it may have any byte.
 *
 * Unless a function says otherwise, a pid may be that of a process or of one of its threads; 0 is
 * the calling process.
 */
#ifndef TARGET_PROC_STATUS_H
#define TARGET_PROC_STATUS_H

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- /proc ---- */

/* NULL: there is no /proc. To be closed by closedir(3). */
DIR *process_folder_open(void);
/* The next process, in no order; 0: the end. */
pid_t process_folder_next(DIR *folder);

/* ---- /proc/PID/cmdline, comm, exe ---- */

/* The command line, with spaces for the NULs, cut to fit; "" when there is none. */
void process_command(pid_t pid, char *ret, size_t size);
/* The name of its first thread: at most 15 bytes. */
void process_comm(pid_t pid, char ret[16]);
/* The path of its program, as the kernel has it; false: errno says why. */
bool process_exe(pid_t pid, char ret[PATH_MAX]);
/* The path that opens its program, also after the file was removed. */
#define PROCESS_EXE_PATH 32
void process_exe_path(pid_t pid, char ret[PROCESS_EXE_PATH]);

/* ---- /proc/PID/status ---- */

/* The text behind "Name:", cut to fit; false when there is no such line. */
bool target_status_line(pid_t pid, const char *name, char *value, size_t size);
/* The value of a line "Name:\tvalue" as a number; -1 without such a line. */
long target_status_number(pid_t pid, const char *name);

/* The letter of its state ('S', 'Z' ...); 0 when there is no such process. */
char target_state(pid_t pid);
/* Its id in its own pid namespace. */
pid_t target_inner_id(pid_t pid);
/* Whether its pid namespace is inside that of /proc. */
bool target_is_nested(pid_t pid);

/* It has ended, and is only waited for by its parent. Its first thread may have ended before others
 * that run on. */
bool process_is_dead(pid_t pid);
bool process_has_first_thread(pid_t pid);

/* The process that traces it by ptrace(2); 0: none. */
pid_t thread_tracer(pid_t id);
/* Whether a seccomp filter decides about this thread's system calls. */
bool thread_is_filtered(pid_t id);
/* The owner of files that this thread creates; (uid_t)-1: no such thread. */
uid_t thread_user(pid_t id);

/* ---- /proc/PID/stat ---- */

/* Whether it is a thread of the kernel, which has no program and never had one. */
bool target_is_kernel_thread(pid_t pid);
/* The process that started it, or took it over; 0: no such process, or none in this namespace. */
pid_t process_parent(pid_t pid);
/* The start time of this process, as field 22 has it; 0: no such process. */
uint64_t process_start(pid_t pid);
/* Of a process that has ended, until its parent has waited for it. */
struct process_parentage {
	char state;
	pid_t parent;
	int exit_signal; /* that its parent gets when it ends; 0: none */
};
bool process_parentage(pid_t pid, struct process_parentage *ret);
/* The CPU time of all its threads, also of those that have ended; -1: no such process. */
double process_cpu_seconds(pid_t pid);
/* As /proc/PID/task/ID/stat has it: 'D' cannot be stopped; 0: there is no such thread. */
char thread_state(pid_t pid, pid_t id);
/* It was killed, or its process was, and has not ended yet. */
bool thread_is_ending(pid_t pid, pid_t id);

/* ---- /proc/PID/task ---- */

/* NULL: there is no such process, or errno says why. To be closed by closedir(3). */
DIR *task_folder_open(pid_t pid);
/* The next thread; 0: there is no more. */
pid_t task_folder_next(DIR *folder);

/* The first of its threads that has not ended. The process's memory can be opened only through that
 * one. */
pid_t process_living_thread(pid_t pid);
/* The system call that the thread is in; -1: none, or the kernel does not show it. */
long thread_syscall(pid_t pid, pid_t id);

/* ---- /proc/PID/fd ---- */

/* For its first thread that has not ended, or the calling process. NULL: errno says why. To be
 * closed by closedir(3). */
DIR *descriptor_folder_open(pid_t pid);
/* The number of the next readable descriptor, and the kernel's name of its file, truncated to fit;
 * -1: the end. */
int descriptor_folder_next(DIR *folder, char *to, size_t size);

#endif
