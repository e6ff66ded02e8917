/* The Go processes of this machine. */
#ifndef GOSPECT_PROCESSES_H
#define GOSPECT_PROCESSES_H

#include <gospect/error.h>
#include <gospect/process.h>

GOSPECT_BEGIN

enum gospect_processes_flags {
	/* Processes that may be Go's, but may not be read, are handed over, too: `problem` says
	 * why. No remark counts them then. */
	GOSPECT_PROCESSES_DENIED = 1,
	/* All processes that match, Go programs or not. None is read, so this takes no worker: only
	 * `pid`, `start`, `name` and `container` are known. */
	GOSPECT_PROCESSES_UNREAD = 2,
};

struct gospect_processes_options {
	size_t size; /* of this structure */
	/* Stays until the call is over. NULL: it cannot be cancelled. */
	const struct gospect_cancel *cancel;
	/* Called with one line for each thing that the list lacks, and why. NULL: no callback. */
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
	/* Only these processes, and those that they started, and so on. NULL: all. */
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
	const char *name;    /* of its program's file, without folders; or of the process */
	const char *container; /* the id or name of its container; "": none */
	/* When it was started, in clock ticks since the machine was: tells it from a later one with
	 * its id. 0: it has ended */
	uint64_t start;
};

/*
 * Hands over each Go process but this one, in the order of their ids, until process() returns
 * anything but 0, which is no error. What it is given is valid during the call. A process is found
 * by its executable, not by its name. *ret_denied, which may be NULL, is how many may be Go
 * processes, too, but may not be read; a remark says what permits it.
 *
 * A worker looks at each process: a child of this process, which is confined as by
 * gospect_confine(). A hostile process can spoil its own entry and no other. It has 5 seconds at
 * most; 20 seconds after the call began, the others have half a second each. Not for a process that
 * is confined itself. No other thread should be inside the library when this is called: workers are
 * forked.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_processes_each(const struct gospect_processes_options *options,
		       int (*process)(void *arg, const struct gospect_go_process *process),
		       void *arg, size_t *ret_denied);

GOSPECT_END

#endif
