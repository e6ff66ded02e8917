/* `gospect record` at a terminal: the page gets a name, and the terminal the answer. */
#ifndef CLI_RECORD_PAGE_H
#define CLI_RECORD_PAGE_H

#include <gospect/profile.h>

#include "cli/subject.h"

/* NAME-PID.html, or NAME-PID-2.html and so on: a name that no file has. NAME.html of a command. The
 * caller frees *ret. Looks at the target's name, and so before privilege is given up. */
struct error *record_page_name(struct subject_options *subject, char **ret) must_check;

/* Prints what stands out, what goroutines wait for, and the URL of the page. */
struct error *record_page_say(const struct gospect_profile *profile, const char *path) must_check;

#endif
