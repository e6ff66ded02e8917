/* How a verb gives up its privilege (sandbox/sandbox.h), before it parses anything. */
#ifndef CLI_CONFINE_H
#define CLI_CONFINE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/outfile.h"
#include "sandbox/broker.h"

struct confinement {
	pid_t pid;                 /* the process that it looks at; 0: none */
	pid_t child;               /* a command that it started, for signals; 0: none */
	const char *const *files;  /* that the user named, to be read later; NULL-terminated */
	struct outfile *out;       /* that it writes, and has open; NULL: none */
	const char *path;          /* that it may open later to write; NULL: none */
	struct outfile_rule names; /* of new files that the user may still name; empty: none */
	bool samples;              /* it has the kernel sample it; or it may */
	/* Puts an agent into the process, in a process of its own (cli/surgeon_process.h). Without
	 * a function: none is put there. */
	struct broker_service surgeon;
};

/* Keeps what it is given. */
struct error *confine(const struct confinement *c) must_check;

/* The same for a process of its own that looks at one process and writes no file: with these
 * limits. */
struct error *confine_worker(const struct confinement *c, uint64_t memory,
			     uint64_t cpu_seconds) must_check;

#endif
