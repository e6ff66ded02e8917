/* Giving up privilege, for a program that runs as root or with capabilities, and reads targets that
 * it does not trust. */
#ifndef GOSPECT_CONFINE_H
#define GOSPECT_CONFINE_H

#include <gospect/error.h>
#include <gospect/process.h>
#include <gospect/write.h>

GOSPECT_BEGIN

struct gospect_trace;

enum gospect_confine_flags {
	GOSPECT_CONFINE_SAMPLES = 1, /* the kernel may be asked to sample the target */
};

struct gospect_confine_options {
	size_t size;       /* of this structure */
	int32_t pid;       /* the only process that may be read afterwards; 0: none */
	int32_t child;     /* the only child that may be sent signals afterwards; 0: none */
	uint32_t flags;    /* a sum of enum gospect_confine_flags */
	uint32_t reserved; /* 0 */
	/* Files and folders that this process may still read, besides those of `pid`. The list ends
	 * with NULL; NULL: none. */
	const char *const *files;
	/* An output that is open: this process may still commit it. NULL: none. */
	struct gospect_output *output;
	/* A trace that was created and has not begun: this process may still write its file. NULL:
	 * none. */
	const struct gospect_trace *trace;
	/* A file that this process may still open for writing. NULL: none. */
	const char *path;
	/* This process may still create files in these folders, but not below them. The names must
	 * have one of these endings. Folders are compared as text; "" is the working directory.
	 * Both lists end with NULL. NULL: no new files. */
	const char *const *new_folders;
	const char *const *new_endings;
	uint64_t memory;      /* bytes that may be allocated; 0: half of the machine's, or 1 GB */
	uint64_t cpu_seconds; /* of CPU time; 0: any */
	/* Called with one line when the kernel has no seccomp. NULL: no callback. */
	void (*remark)(void *arg, const char *line);
	void *arg; /* of remark() */
	/* A directory whose Go files may still be read, for gospect_profile_add_sources(). NULL:
	 * none. */
	const char *source;
};

/*
 * Changes the whole process permanently. The command does this before it reads anything of a
 * target. The call forks a process that keeps the privilege: the broker. The broker opens the files
 * that are needed to read the target, and parses none of them. This process keeps only the
 * capabilities that reading the target's memory needs. A seccomp filter permits it to write to open
 * descriptors, but not to open a file, make a socket or a process, or send a signal. A forbidden
 * system call fails with EPERM.
 *
 * Call it once, while the process has a single thread, before you open a target. A trace needs a
 * surgeon that was started before. An error changes nothing.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_confine(const struct gospect_confine_options *options);

/* Ends the broker and waits for it. After that no file can be opened. The process stays confined.
 * Without a broker, the call does nothing. */
GOSPECT_API void gospect_confine_end(void);

/*
 * The surgeon: a separate process that may stop the threads of one target and write to its memory,
 * as a trace requires. It parses nothing; gospect_trace_begin() gives it its orders. A process that
 * is not confined needs no surgeon: a trace starts one by itself.
 */
struct gospect_surgeon;

/*
 * Starts a surgeon for the target `pid`, but for no later process with that id. When `cancel` (may
 * be NULL) is requested, it begins nothing more and undoes what it has begun. The surgeon is a
 * child of the calling process, and ends with it. GOSPECT_ERROR_UNSUPPORTED: processes of this
 * architecture cannot be traced.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_surgeon_start(int pid, const struct gospect_cancel *cancel, struct gospect_surgeon **ret);

/* Ends the surgeon and waits for it. Call it after its traces are destroyed. Takes NULL as well. */
GOSPECT_API void gospect_surgeon_end(struct gospect_surgeon *surgeon);

GOSPECT_END

#endif
