/* The target of a verb: given as PID or NAME, by --container ID, -- COMMAND or by --core FILE,
 * opened, understood and validated. */
#ifndef CLI_TARGET_OPTIONS_H
#define CLI_TARGET_OPTIONS_H

#include <gospect/confine.h>
#include <gospect/hold.h>
#include <gospect/target.h>
#include <sys/types.h>

#include "base/outfile.h"
#include "cli/cli.h"

/* The most targets of one recording. */
enum { TARGETS_MOST = 256 };

struct target_options {
	const char *word;      /* PID or NAME; NULL: none */
	const char *container; /* its id, or the first characters; NULL: none */
	bool takes_many;       /* set by the verb: it takes several targets, and `host` */
	const char *more[TARGETS_MOST - 1];
	size_t more_count;
	bool host;          /* all Go processes of this machine */
	bool children;      /* those that the target starts, too */
	const char *follow; /* every process of this name, also later ones; NULL: none */
	bool contains_many; /* the container has several Go processes */
	pid_t pid;          /* of `word`, by target_options_find() */
	const char *verb;   /* set by target_options_check() */
	const char *exe;
	const char *core;
	char **command;   /* NULL-terminated; NULL: none */
	bool reads_cores; /* set by the verb: it reads core files */
	bool holds;       /* set by the verb: it calls cli_target_go_on() */
	bool confines;    /* set by the verb: cli_target_open() gives up privilege */
	bool traces;      /* set by the verb: it installs an agent in the target */
	bool completes;   /* set by the verb: it is soon done, and ignores a first signal */
	bool reads_alone; /* set by the verb: it needs no samples by the kernel */
	struct gospect_trace *trace; /* set by the verb, not begun yet; NULL: none */
	const char *source;        /* a directory whose Go files the verb reads later; NULL: none */
	struct outfile *out;       /* the output that the verb writes later; NULL: none */
	const char *path;          /* a file that the verb opens and writes later; NULL: none */
	struct outfile_rule names; /* and the new files that the user may name then */
};

/*
 * Child parsers, whose input is struct target_options. The first has -p, a bare PID or NAME,
 * --container, and a command after --. The others have --exe, and --core for verbs that need no
 * running process.
 */
extern const struct argp target_options_argp, target_options_exe_argp, target_options_core_argp;

struct cli_target {
	struct gospect_target *handle;
	pid_t child;               /* the command that we started; 0: none */
	struct gospect_hold *hold; /* holds the command before its first line; NULL: it runs */
	struct gospect_surgeon *surgeon; /* for verbs that trace; NULL: none on this architecture */
};

/* ERROR_USAGE unless there is exactly one target, of a kind that the verb supports. */
struct error *target_options_check(struct target_options *options, const char *verb) must_check;
/* Finds the process of a name. Call it before privilege is given up; cli_target_open() does it,
 * too. */
struct error *target_options_find(struct target_options *options) must_check;

/*
 * Opens the target that the options name. Starts a command. Waits until the Go runtime of a
 * starting process is set up.
 */
struct error *cli_target_open(struct target_options *options, struct cli_target *ret) must_check;
/* Resumes the held program. */
void cli_target_go_on(struct cli_target *s);
/* Does not end the command: see cli_target_finish(). */
void cli_target_close(struct cli_target *s);
/* If there is a command, resumes it and waits for its end: *ret as command_wait(). `err` is said
 * before, since the end may be days away, and the result is then one that says no more. */
struct error *cli_target_finish(struct cli_target *s, struct error *err, int *ret) must_check;

#define _cleanup_cli_target_ __attribute__((cleanup(cli_target_close)))

#endif
