/*
 * A file that appears whole or not at all: written beside its name, renamed when it is complete.
 * The name "-" is standard output, which cannot be taken back.
 */
#ifndef BASE_OUTFILE_H
#define BASE_OUTFILE_H

#include <stdio.h>

#include "base/error.h"

struct outfile {
	FILE *stream; /* where to write; never close it yourself */
	char *path;
	char *temporary; /* NULL for standard output */
};

struct error *outfile_open(const char *path, struct outfile *ret) must_check;
/* Flushes, checks that every write arrived, and gives the file its name. */
struct error *outfile_commit(struct outfile *out) must_check;
/* Removes what was not committed. Also after outfile_commit(), where it does nothing. */
void outfile_abandon(struct outfile *out);

#define _cleanup_outfile_ __attribute__((cleanup(outfile_abandon)))

#endif
