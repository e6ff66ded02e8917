/*
 * A file that appears whole or not at all: it has no name until it is complete (where the file
 * system cannot do that, it has another name beside its own), so also SIGKILL leaves nothing. The
 * name "-" is standard output, which cannot be taken back.
 *
 * Only its owner may read it (mode 0600): it holds memory, command lines and labels of a program.
 * A symbolic link with its name is replaced, not followed, unless it leads to a device or a pipe
 * and only root and we can have made it.
 */
#ifndef BASE_OUTFILE_H
#define BASE_OUTFILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/door.h"
#include "base/error.h"
#include "base/kept_files.h"

struct outfile {
	FILE *stream; /* where to write; never close it yourself */
	bool is_new;  /* replaces no file */
	char *path;
	size_t number_at; /* in `path`: where a number goes when the name is taken; 0: nowhere */
	const char *name; /* the last component of `path`, in `folder`; NULL: written in place */
	int folder;
	char *temporary; /* its temporary name in `folder`; NULL: none */
	int failed;      /* errno of the first outfile_write() that failed; 0: none */
};

struct error *outfile_open(const char *path, struct outfile *ret) must_check;
/*
 * A file that is useful before it is complete: while it grows it is PATH.partial, which stays if
 * gospect is killed. Refused while another process writes it. A file that another gospect of the
 * same user left is replaced; a file of another user is refused.
 */
struct error *outfile_open_growing(const char *path, struct outfile *ret) must_check;
/*
 * A temporary file without a name, to write and read, in the directory of `path`. If that directory
 * is in memory (tmpfs) or cannot have such files, and for standard output, it lies in a directory
 * for temporary files. -1: no disk available. *ret_free: bytes that are free there.
 */
int outfile_open_scratch(const char *path, uint64_t *ret_free);
/* Writes to its stream; a failure is remembered for outfile_commit(). */
void outfile_write(struct outfile *out, const void *bytes, size_t size);
/*
 * Which names a user may still give after gospect has dropped its privilege: directly in one of
 * these directories, compared as text, with one of these endings. Both arrays are NULL-terminated.
 * "" is the working directory.
 */
struct outfile_rule {
	const char *const *folders;
	const char *const *endings;
};
/* Opens a new file that satisfies the rule. It replaces no file, at the commit either. */
struct error *outfile_open_new(const char *path, const struct outfile_rule *rule,
			       struct outfile *ret) must_check;
/*
 * A file BEFORE + AFTER that replaces nothing: where something has that name when it is committed,
 * it becomes BEFORE-2AFTER, and so on. From outfile_commit() to outfile_abandon() `path` is its
 * name. Without privilege, BEFORE begins with the service's `family`.
 */
struct error *outfile_open_numbered(const char *before, const char *after,
				    struct outfile *ret) must_check;
/*
 * Flushes, checks that every write arrived, and gives the file its name. When the file cannot have
 * its own name it keeps a temporary one, and the error says which.
 */
struct error *outfile_commit(struct outfile *out) must_check;
/* Removes an uncommitted file. Does nothing after outfile_commit(). */
void outfile_abandon(struct outfile *out);

/* The broker's part: a service of the door (DOOR_OUTFILE), which publishes the file that is open
 * when the broker begins, or one that it opened later. `arg` is a struct outfile_service. */
struct outfile_service {
	const char *path;          /* that may be opened; NULL: none */
	struct outfile_rule names; /* that may be new files; without folders: none */
	const char *family;        /* of numbered files: what their names begin with; NULL: none */
	struct outfile *out;       /* that is open; NULL: none. Its stream is not used */
	struct outfile again;      /* that the service opened */
	struct kept_files kept;    /* numbered ones, of which it removes the oldest */
};
struct error *outfile_serve(void *arg, struct door_call *call) must_check;

#define _cleanup_outfile_ __attribute__((cleanup(outfile_abandon)))

#endif
