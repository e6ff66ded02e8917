/* The target of a verb: given as PID or NAME, by -- COMMAND or by --core FILE, opened, understood
 * and validated. */
#ifndef CLI_TARGET_OPTIONS_H
#define CLI_TARGET_OPTIONS_H

#include <gospect/confine.h>
#include <gospect/hold.h>
#include <gospect/target.h>
#include <sys/types.h>

#include "base/outfile.h"
#include "cli/cli.h"

/* Targets of one recording. */
enum { TARGETS_MOST = 256 };

struct target_options {
	const char *word; /* PID or NAME; NULL: none was given */
	bool takes_many;  /* the verb's: it takes more of them, and `host` */
	const char *more[TARGETS_MOST - 1];
	size_t more_count;
	bool host;        /* all Go processes of this machine */
	pid_t pid;        /* of it: target_options_find() */
	const char *verb; /* target_options_check() notes it */
	const char *exe;
	const char *core;
	char **command;   /* NULL-terminated; NULL: none was given */
	bool reads_cores; /* the verb's: it needs no running process */
	bool holds;       /* the verb's: it calls cli_target_go_on() */
	bool confines;    /* the verb's: cli_target_open() gives up privilege */
	bool traces;      /* the verb's: it puts an agent into the target */
	bool completes;   /* the verb's: it is soon done, and no first signal keeps it from that */
	bool reads_alone; /* the verb's: it has the kernel sample nothing */
	struct gospect_trace *trace; /* the verb's, not begun yet; NULL: none */
	const char *source;        /* a directory whose Go files the verb reads later; NULL: none */
	struct outfile *out;       /* the output that the verb writes later; NULL: none */
	const char *path;          /* a file that the verb opens and writes later; NULL: none */
	struct outfile_rule names; /* and the new files that the user may name then */
};

/*
 * Child parsers; their input is struct target_options: -p, a bare PID or NAME, --exe and a command
 * after --; the second also --core, for verbs that need no running process.
 */
extern const struct argp target_options_argp, target_options_core_argp;

struct cli_target {
	struct gospect_target *handle;
	pid_t child;               /* the command that we started; 0: none */
	struct gospect_hold *hold; /* that may have it stand before its first line; NULL: it runs */
	struct gospect_surgeon *surgeon; /* for verbs that trace; NULL: none on this architecture */
};

/* ERROR_USAGE unless there is exactly one target, of a kind that the verb takes. */
struct error *target_options_check(struct target_options *options, const char *verb) must_check;
/* Which process a name means; before privilege is given up. cli_target_open() does it, too. */
struct error *target_options_find(struct target_options *options) must_check;

/*
 * Opens the target that the options name. Starts a command and waits until its Go runtime is up;
 * waits likewise for a process that is just starting.
 */
struct error *cli_target_open(struct target_options *options, struct cli_target *ret) must_check;
/* Resumes the held program. */
void cli_target_go_on(struct cli_target *s);
/* Does not end the command; see cli_target_wait(). */
void cli_target_close(struct cli_target *s);
/* command_wait() for the command, which there is. */
int cli_target_wait(struct cli_target *s);

#define _cleanup_cli_target_ __attribute__((cleanup(cli_target_close)))

#endif
