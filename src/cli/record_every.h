/* Recordings one after the other, each in a file of its own: record --every DURATION --keep N. */
#ifndef CLI_RECORD_EVERY_H
#define CLI_RECORD_EVERY_H

#include "cli/cli.h"

struct record_every {
	double seconds; /* of a file; 0: there is one recording only */
	double keep;    /* this many files at most; 0: all */
};

/* An exit status: there was nothing to record. The next file may have something. */
enum { RECORD_EVERY_NOTHING = 120 };

/* Makes one recording of that many seconds, and writes it to that file. Sets *ret as a verb does.
 */
typedef struct error *(*record_once)(void *arg, char *path, double seconds, int *ret);

/*
 * Runs `once` in one child process after the other, until a signal ends it, until `duration`
 * seconds have passed (0: no limit), or until one fails, whose exit status it gives. A file
 * NAME.pb.gz is named NAME-YYYYmmdd-HHMMSS.pb.gz, and replaces none. After each it removes the
 * oldest of the files that are named so beyond `keep`, earlier runs' files too. Call it before
 * gospect drops its privilege: each child drops its own.
 */
struct error *record_every_run(const struct record_every *every, const char *path, double duration,
			       record_once once, void *arg, int *ret) must_check;

#endif
