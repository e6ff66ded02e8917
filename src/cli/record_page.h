/* `gospect record NAME` at a terminal: chooses the name of the HTML page and prints a summary. */
#ifndef CLI_RECORD_PAGE_H
#define CLI_RECORD_PAGE_H

#include <gospect/profile.h>

#include "cli/target_options.h"

/* Chooses NAME-PID.html, or NAME-PID-2.html and so on: the first name that no file has. For a
 * command it is NAME.html. Must run before gospect gives up its privilege, because it reads
 * /proc/PID/exe. The caller frees *ret. */
struct error *record_page_name(struct target_options *target, char **ret) must_check;

/* Prints the findings, the longest wait reasons, the busiest functions, and the URL of the page. */
struct error *record_page_say(const struct gospect_profile *profile, const char *path) must_check;

#endif
