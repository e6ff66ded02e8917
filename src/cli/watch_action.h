/* What gospect watch does in an incident: it runs other verbs, each in a process of its own, which
 * confines itself as that verb does. */
#ifndef CLI_WATCH_ACTION_H
#define CLI_WATCH_ACTION_H

#include <sys/types.h>

#include "base/error.h"
#include "base/kept_files.h"

#define WATCH_MOST_ACTIONS 6

struct watch_actions {
	const char *path;                                     /* the begin of the files' names */
	const struct watch_action *items[WATCH_MOST_ACTIONS]; /* in order */
	size_t count;
	double duration; /* of recordings, in seconds */
	struct kept_files kept;
	size_t incidents;
};

/* Adds an action by its name. ERROR_USAGE: there is none of this name. */
struct error *watch_actions_add(struct watch_actions *a, const char *name) must_check;
/* Incidents to keep; each has a file of each action. */
void watch_actions_keep(struct watch_actions *a, size_t incidents);
/* Writes the files of an incident, and removes the oldest. `many`: their names have the pid. Errors
 * are printed. */
void watch_actions_run(struct watch_actions *a, pid_t pid, bool many, const char *word,
		       const char *sentence);
void watch_actions_release(struct watch_actions *a);

#endif
