/* Giving up privilege: for a program that runs as root, or with capabilities, beside programs that
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
	/* A file that this process may still open to write it. NULL: none. */
	const char *path;
	/* This process may still create files in these folders, but not in folders below them,
	 * whose names have one of these endings. Folders are compared as text; "" is the working
	 * folder. Both lists end with NULL. NULL: no new files. */
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
 * Changes the whole process, for ever: it is what gospect does before it reads anything of a
 * target. A process is forked that keeps the privilege (the broker): it opens the files that
 * reading the target takes, and parses none of them. This process goes on without capabilities, but
 * those that reading the target's memory takes, and under a seccomp filter: it opens no file, makes
 * no socket and no process, sends no signal, and writes to descriptors that it has. What is
 * forbidden fails with EPERM.
 *
 * Once in a process, which has a single thread, before a target is opened. A trace needs a surgeon
 * that was started before. After an error all is as it was.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_confine(const struct gospect_confine_options *options);

/* Ends the broker and waits for it: no file can be opened from then on. The process stays confined.
 * Does nothing without a broker. */
GOSPECT_API void gospect_confine_end(void);

/*
 * The surgeon: a process of its own that may stop one target's threads and write to its memory, as
 * a trace takes it. It parses nothing; gospect_trace_begin() tells it what to do. A process that
 * does not confine itself needs none: a trace starts one by itself.
 */
struct gospect_surgeon;

/*
 * Starts a surgeon for the target `pid`, and for no later process with that id. Once `cancel` (may
 * be NULL) is requested, it begins nothing more and removes what it has begun. The surgeon is a
 * child of the calling process, and ends with it. GOSPECT_ERROR_UNSUPPORTED: processes of this
 * architecture cannot be traced.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_surgeon_start(int pid, const struct gospect_cancel *cancel, struct gospect_surgeon **ret);

/* Waits for its end. Behind all traces that it was given to. Takes NULL as well. */
GOSPECT_API void gospect_surgeon_end(struct gospect_surgeon *surgeon);

GOSPECT_END

#endif
