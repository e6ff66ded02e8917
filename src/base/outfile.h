/*
 * A file that appears whole or not at all: it has no name until it is complete (where the file
 * system cannot do that, it has another name beside its own), so also SIGKILL leaves nothing. The
 * name "-" is standard output, which cannot be taken back.
 */
#ifndef BASE_OUTFILE_H
#define BASE_OUTFILE_H

#include <stdbool.h>
#include <stdio.h>

#include "base/error.h"

struct outfile {
	FILE *stream; /* where to write; never close it yourself */
	char *path;
	char *temporary; /* the name that it has before it has its own; NULL: none */
	bool nameless;
};

struct error *outfile_open(const char *path, struct outfile *ret) must_check;
/*
 * A file that is of use before it is complete: while it grows it is PATH.partial, which stays when
 * we are killed. Refused while another process writes it.
 */
struct error *outfile_open_growing(const char *path, struct outfile *ret) must_check;
/* Flushes, checks that every write arrived, and gives the file its name. */
struct error *outfile_commit(struct outfile *out) must_check;
/* Removes what was not committed. Also after outfile_commit(), where it does nothing. */
void outfile_abandon(struct outfile *out);

#define _cleanup_outfile_ __attribute__((cleanup(outfile_abandon)))

#endif
