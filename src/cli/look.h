/* A verb that looks at its target once, writes what it saw and is done: dump, heap, memory, stack,
 * waits.
 */
#ifndef CLI_LOOK_H
#define CLI_LOOK_H

#include <stdio.h>

#include "cli/common_options.h"

/*
 * Opens the output and the target of the options, which target_options_check() has accepted. Then
 * calls work(verb, ...), which takes from the target and writes to the output, and commits the
 * output. With -o FILE a first signal does not lose it. At the end it waits for the command of
 * `-- COMMAND`, also after an error, and *ret is its exit status.
 */
struct error *look_once(struct common_options *request,
			struct error *(*work)(void *verb, const struct cli_target *target,
					      struct outfile *out),
			void *verb, int *ret) must_check;

/* The first line of text that look_once() and why write in this process. NULL: none. It must
 * outlive them. */
void look_set_heading(const char *heading);
void look_write_heading(FILE *out);

#endif
