/* The Go processes of this machine. */
#ifndef GOSPECT_PROCESSES_H
#define GOSPECT_PROCESSES_H

#include <gospect/error.h>
#include <gospect/process.h>

GOSPECT_BEGIN

enum gospect_processes_flags {
	/* Include processes that may be Go programs but may not be read: `problem` says why. No
	 * remark then counts them. */
	GOSPECT_PROCESSES_DENIED = 1,
	/* All processes that match, Go programs or not. None is read, so only `pid`, `start`,
	 * `name` and `container` are known. */
	GOSPECT_PROCESSES_UNREAD = 2,
};

struct gospect_processes_options {
	size_t size; /* of this structure */
	/* Must outlive the call. NULL: it cannot be cancelled. */
	const struct gospect_cancel *cancel;
	/* Called with one line for each thing that the list lacks; the line says why. NULL: no
	 * callback. */
	void (*remark)(void *arg, const char *line);
	void *arg; /* of remark() */
	/* Only processes with this name: that of the executable, without directories, or
	 * /proc/PID/comm. NULL: all. */
	const char *name;
	uint32_t flags;    /* a sum of enum gospect_processes_flags */
	uint32_t reserved; /* 0 */
	/* Only processes in the container whose id begins with this (Docker, containerd, CRI-O,
	 * Podman), or that has this name (systemd, LXC). NULL: all. */
	const char *container;
	/* Only processes with these ids. NULL: all. */
	const int32_t *pids;
	size_t pid_count;
	/* Only these processes and their descendants. NULL: all. */
	const int32_t *ancestors;
	size_t ancestor_count;
};

/* The facts about one process. Long strings of the process are truncated. */
struct gospect_go_process {
	int32_t pid;
	uint32_t is_denied;     /* 1: it may be a Go process, and may not be read */
	int64_t goroutines;     /* as runtime.NumGoroutine() counts them; -1: not known */
	uint64_t threads;       /* 0: not known */
	const char *go_version; /* "go1.27.2"; "" when it is not known */
	const char *build;      /* "dynamic,pie,cgo,stripped": the properties that apply */
	const char *command;    /* its command line, with spaces between the arguments */
	const char *problem; /* why some facts are unknown, and the remedy; "" when all are known */
	const char *name;    /* of its program's file, without directories; or the text of
				/proc/PID/comm */
	const char *container; /* the id or name of its container; "": none */
	/* The start time in clock ticks since the machine booted, which differs from that of a
	 * later process with the same id. 0: it has ended. */
	uint64_t start;
};

/*
 * Calls process() for each Go process except this one, in the order of their ids. It ends early,
 * without an error, when process() returns anything but 0. The argument is valid during the call. A
 * Go process is recognised by its executable, not by its name. *ret_denied is the number of
 * processes that may be Go programs but may not be read; a remark names the remedy. `ret_denied`
 * may be NULL.
 *
 * A worker reads each process. Workers are children of this process, confined as by
 * gospect_confine(), so a hostile process can spoil only its own entry. A worker has 5 seconds;
 * from 20 seconds after the begin of the call on, it has half a second. A confined process cannot
 * call this function. No other thread should use the library during the call, because it forks.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_processes_each(const struct gospect_processes_options *options,
		       int (*process)(void *arg, const struct gospect_go_process *process),
		       void *arg, size_t *ret_denied);

GOSPECT_END

#endif
