#include "cli/watch_action.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "cli/look.h"
#include "cli/stop.h"

struct watch_action {
	const char *name;
	const char *ending;
	const struct verb *verb;
	const char *option; /* NULL: none */
	bool has_duration;
	bool is_text; /* its first line says what happened */
};

static const struct watch_action actions[] = {
	{"dump", "dump.txt", &verb_dump, "--values", false, true},
	{"record", "record.html", &verb_record, NULL, true, false},
	{"waits", "waits.txt", &verb_waits, NULL, false, true},
	{"heap", "heap.pb.gz", &verb_heap, NULL, false, false},
	{"memory", "memory.txt", &verb_memory, NULL, false, true},
	{"why", "why.txt", &verb_why, NULL, true, true},
};

_Static_assert(ARRAY_SIZE(actions) == WATCH_MOST_ACTIONS, "each may be used once");

struct error *watch_actions_add(struct watch_actions *a, const char *name)
{
	for (size_t i = 0; i < a->count; i++)
		if (!strcmp(a->items[i]->name, name))
			return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(actions); i++) {
		if (strcmp(actions[i].name, name))
			continue;
		a->items[a->count++] = &actions[i];
		return NULL;
	}
	return error_format(ERROR_USAGE,
			    "unknown action '%s'; use dump, record, waits, heap, memory or why",
			    name);
}

void watch_actions_keep(struct watch_actions *a, size_t incidents)
{
	a->kept.most = incidents * a->count;
}

void watch_actions_release(struct watch_actions *a)
{
	kept_files_release(&a->kept);
}

/* ---- one file ---- */

static int run_verb(const struct watch_action *action, char **argv, const char *heading)
{
	struct error *err;
	int argc = 0, status = EXIT_DONE;

	while (argv[argc])
		argc++;
	if (action->is_text)
		look_set_heading(heading);
	err = action->verb->run(argc, argv, &status);
	if (err) {
		status = EXIT_FAILED;
		if (err->code != ERROR_STOPPED)
			say("%s: %s", action->name, err->message);
		error_destroy(err);
	}
	gospect_confine_end();
	return fflush(stdout) ? EXIT_FAILED : status;
}

/* False: there is no file. */
static bool run_action(const struct watch_actions *a, const struct watch_action *action, pid_t pid,
		       char *path, const char *heading)
{
	char number[16], duration[32];
	char *argv[10] = {(char *)action->name, "-p", number, "-o", path};
	size_t argc = 5;
	int status = -1;
	pid_t child;

	snprintf(number, sizeof(number), "%d", pid);
	snprintf(duration, sizeof(duration), "%g", a->duration);
	if (action->option)
		argv[argc++] = (char *)action->option;
	if (action->has_duration) {
		argv[argc++] = "-d";
		argv[argc++] = duration;
	}
	fflush(NULL);
	child = fork();
	if (!child)
		_exit(run_verb(action, argv, heading));
	if (child < 0) {
		say("cannot start another process: %s", strerror(errno));
		return false;
	}
	stop_forward(child);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	stop_forward(0);
	return WIFEXITED(status) && WEXITSTATUS(status) == EXIT_DONE;
}

/* ---- an incident ---- */

/* The names that the files of one incident share: of the present time, and of no file that is
 * there. NULL: no memory. */
static char *new_stem(const struct watch_actions *a, pid_t pid, bool many, const char *word)
{
	time_t now = time(NULL);
	char moment[32], who[16] = "", number[16] = "", *stem = NULL, *path = NULL;
	bool taken = true;
	struct tm tm;

	strftime(moment, sizeof(moment), "%Y%m%d-%H%M%S", localtime_r(&now, &tm));
	if (many)
		snprintf(who, sizeof(who), "-%d", pid);
	for (int i = 2; taken && i < 1000; i++) {
		free(stem);
		if (asprintf(&stem, "%s%s-%s%s-%s", a->path, who, moment, number, word) < 0)
			return NULL;
		taken = false;
		for (size_t k = 0; k < a->count; k++) {
			if (asprintf(&path, "%s.%s", stem, a->items[k]->ending) < 0)
				return NULL;
			taken |= !access(path, F_OK);
			free(path);
		}
		snprintf(number, sizeof(number), "-%d", i);
	}
	return stem;
}

static void keep_file(struct watch_actions *a, const char *path)
{
	struct error *err = kept_files_add(&a->kept, path);

	if (err)
		say("%s", err->message);
	error_destroy(err);
}

void watch_actions_run(struct watch_actions *a, pid_t pid, bool many, const char *word,
		       const char *sentence)
{
	_cleanup_free_ char *stem = new_stem(a, pid, many, word), *heading = NULL;

	a->incidents++;
	if (!stem || asprintf(&heading, "gospect watch, process %d: %s", pid, sentence) < 0) {
		heading = NULL;
		say("%s", error_no_memory.message);
		return;
	}
	for (size_t i = 0; i < a->count && !stop_requested; i++) {
		_cleanup_free_ char *path = NULL;

		if (asprintf(&path, "%s.%s", stem, a->items[i]->ending) < 0) {
			path = NULL;
			return;
		}
		if (run_action(a, a->items[i], pid, path, heading))
			keep_file(a, path);
	}
}
