/*
 * How gospect opens files of others: those of /proc, programs, recordings.
 *
 * Every room opens through this door. At first it leads to open(2). Once gospect has given up its
 * privilege (sandbox/sandbox.h), it leads to the broker, which opens what its policy allows and
 * passes the descriptor. For any thread; door_set() only while there is one.
 *
 * Descriptors are for reading, close on exec, and never wait: opening a FIFO gives an error or end
 * of file.
 */
#ifndef BASE_DOOR_H
#define BASE_DOOR_H

#include <dirent.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/error.h"

#define DOOR_MAX_BYTES 8192
#define DOOR_MAX_FDS 5

/* Other operations that need privilege. The room that needs one has a function for it, which runs
 * in this process or in the broker. */
enum door_service {
	DOOR_OUTFILE,        /* gives an output file its name: base/outfile.c */
	DOOR_SAMPLE_PROGRAM, /* loads the program that runs at samples: oncpu/sample_program.c */
	DOOR_USER,           /* names a user: target/denied.c */
	DOOR_SOURCE,         /* opens a file of source: profile/source_files.c */
	DOOR_HELPER,         /* the service of a helper: sandbox/helper.h */
	DOOR_SERVICES
};

/* The arguments of a service, and then its result. The caller closes the descriptors. */
struct door_call {
	uint8_t bytes[DOOR_MAX_BYTES];
	size_t size;
	int fds[DOOR_MAX_FDS];
	size_t fd_count;
};

/* Closes its descriptors. */
void door_call_drop(struct door_call *call);

struct door {
	/* As open(2) for reading; `flags`: 0, O_DIRECTORY, O_NOFOLLOW. */
	int (*open)(const char *path, int flags);
	/* As perf_event_open(2) without a group. */
	int (*perf_event)(const struct perf_event_attr *attr, pid_t thread, int cpu);
	/* As door_temporary(), in the folder with this number. */
	int (*temporary)(unsigned int folder);
	struct error *(*call)(enum door_service service, struct door_call *call);
};

/* NULL: uses door_direct() again. */
void door_set(const struct door *door);
/* The door that gospect starts with. */
const struct door *door_direct(void);

/* Each fails as open(2) does: -1 or NULL, and errno. */
int door_open(const char *path, int flags);
FILE *door_fopen(const char *path);
DIR *door_opendir(const char *path);
int door_perf_event(const struct perf_event_attr *attr, pid_t thread, int cpu);

/* A file without a name, to write and read: in TMPDIR, /var/tmp or /tmp. *ret_folder is the one
 * that was tried last. */
int door_temporary(const char **ret_folder);

/* Whether another process has the privilege; then door_call() asks it. */
bool door_is_brokered(void);
struct error *door_call(enum door_service service, struct door_call *call) must_check;

/* `name` in an open directory: `folder` is its descriptor and `path` its name. Without privilege
 * the broker uses the name, which it binds to the same process. */
int door_openat(int folder, const char *path, const char *name, int flags);

#endif
