/* The target of a verb: given as PID or NAME, by -- COMMAND or by --core FILE, opened, understood
 * and validated. */
#ifndef CLI_SUBJECT_H
#define CLI_SUBJECT_H

#include <gospect/confine.h>
#include <gospect/hold.h>
#include <gospect/target.h>
#include <sys/types.h>

#include "base/outfile.h"
#include "cli/cli.h"

struct subject_options {
	const char *word; /* PID or NAME; NULL: none was given */
	pid_t pid;        /* of it: subject_find() */
	const char *verb; /* subject_check() notes it */
	const char *exe;
	const char *core;
	char **command;   /* NULL-terminated; NULL: none was given */
	bool reads_cores; /* the verb's: it needs no running process */
	bool holds;       /* the verb's: it calls subject_go_on() */
	bool confines;    /* the verb's: subject_open() gives up privilege */
	bool traces;      /* the verb's: it puts an agent into the target */
	bool completes;   /* the verb's: it is soon done, and no first signal keeps it from that */
	bool reads_alone; /* the verb's: it has the kernel sample nothing */
	struct gospect_trace *trace; /* the verb's, not begun yet; NULL: none */
	struct outfile *out;         /* the output that the verb writes later; NULL: none */
	const char *path;            /* a file that the verb opens and writes later; NULL: none */
	struct outfile_rule names;   /* and the new files that the user may name then */
};

/*
 * Child parsers; their input is struct subject_options: -p, a bare PID or NAME, --exe and a command
 * after --; the second also --core, for verbs that need no running process.
 */
extern const struct argp subject_argp, subject_core_argp;

struct subject {
	struct gospect_target *handle;
	pid_t child;               /* the command that we started; 0: none */
	struct gospect_hold *hold; /* that may have it stand before its first line; NULL: it runs */
	struct gospect_surgeon *surgeon; /* for verbs that trace; NULL: none on this architecture */
};

/* ERROR_USAGE unless there is exactly one target, of a kind that the verb takes. */
struct error *subject_check(struct subject_options *options, const char *verb) must_check;
/* Which process a name means; before privilege is given up. subject_open() does it, too. */
struct error *subject_find(struct subject_options *options) must_check;

/*
 * Opens the target that the options name. Starts a command and waits until its Go runtime is up;
 * waits likewise for a process that is just starting.
 */
struct error *subject_open(struct subject_options *options, struct subject *ret) must_check;
/* Resumes the held program. */
void subject_go_on(struct subject *s);
/* Does not end the command; see subject_wait(). */
void subject_close(struct subject *s);
/* command_wait() for the command, which there is. */
int subject_wait(struct subject *s);

#define _cleanup_subject_ __attribute__((cleanup(subject_close)))

#endif
