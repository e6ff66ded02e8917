#include "cli/record_every.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/format_names.h"
#include "cli/stop.h"

/* In seconds. A shorter rest at the end is not recorded. */
#define LEAST_SECONDS 0.05
/* YYYYmmdd-HHMMSS */
#define MOMENT_LENGTH 15

/* The names of the files: before, a moment, after. */
struct names {
	char *folder; /* with its last slash; "" is the working directory */
	char *before; /* in the folder, with a hyphen at the end */
	const char *after;
};

static void names_release(struct names *n)
{
	free(n->folder);
	free(n->before);
}
#define _cleanup_names_ _cleanup_(names_release)

/* Where the ending of a file's name begins: one of a profile, or what is behind the last dot. */
static const char *ending_of(const char *base)
{
	const char *const *suffixes = format_profile_suffixes();
	const char *dot = strrchr(base, '.');
	size_t length = strlen(base);

	for (size_t i = 0; suffixes[i]; i++) {
		size_t size = strlen(suffixes[i]);

		if (length > size && !strcmp(base + length - size, suffixes[i]))
			return base + length - size;
	}
	return dot && dot != base ? dot : base + length;
}

static struct error *must_check split(const char *path, struct names *ret)
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;

	ret->after = ending_of(base);
	ret->folder = strndup(path, base - path);
	if (asprintf(&ret->before, "%.*s-", (int)(ret->after - base), base) < 0)
		ret->before = NULL;
	return ret->folder && ret->before ? NULL : &error_no_memory;
}

/* A name of the present time that no file has. NULL: no memory. */
static char *new_name(const struct names *n)
{
	time_t now = time(NULL);
	char moment[32], number[16] = "", *name = NULL;
	struct tm tm;

	strftime(moment, sizeof(moment), "%Y%m%d-%H%M%S", localtime_r(&now, &tm));
	for (int i = 2;; i++) {
		if (asprintf(&name, "%s%s%s%s%s", n->folder, n->before, moment, number, n->after) <
		    0)
			return NULL;
		if (access(name, F_OK) && errno == ENOENT)
			return name;
		if (i > 1000)
			return name; /* opening it reports the error */
		snprintf(number, sizeof(number), "-%d", i);
		free(name);
	}
}

/* ---- the files that are there ---- */

struct old_file {
	char *name;
	struct timespec written;
};

struct old_files {
	struct old_file *files;
	size_t count, capacity;
};

static void old_files_release(struct old_files *o)
{
	for (size_t i = 0; i < o->count; i++)
		free(o->files[i].name);
	free(o->files);
}
#define _cleanup_old_files_ _cleanup_(old_files_release)

/* Whether it is a moment, and perhaps a number, as new_name() makes them. */
static bool is_moment(const char *text, size_t length)
{
	for (size_t i = 0; i < MOMENT_LENGTH; i++)
		if (i >= length || (i == 8 ? text[i] != '-' : !isdigit((unsigned char)text[i])))
			return false;
	for (size_t i = MOMENT_LENGTH; i < length; i++)
		if (i == MOMENT_LENGTH ? text[i] != '-' || length == MOMENT_LENGTH + 1
				       : !isdigit((unsigned char)text[i]))
			return false;
	return true;
}

static bool is_ours(const struct names *n, const char *name)
{
	size_t length = strlen(name), before = strlen(n->before), after = strlen(n->after);

	return length > before + after && !strncmp(name, n->before, before) &&
	       !strcmp(name + length - after, n->after) &&
	       is_moment(name + before, length - before - after);
}

static struct error *must_check note(struct old_files *o, DIR *folder, const char *name)
{
	struct stat st;

	/* A file of another user was not written by this gospect. */
	if (fstatat(dirfd(folder), name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode) ||
	    st.st_uid != geteuid())
		return NULL;
	if (!array_reserve(&o->files, &o->capacity, o->count + 1))
		return &error_no_memory;
	o->files[o->count] = (struct old_file){strdup(name), st.st_mtim};
	if (!o->files[o->count].name)
		return &error_no_memory;
	o->count++;
	return NULL;
}

static int newest_first(const void *a, const void *b)
{
	const struct old_file *one = a, *other = b;

	if (one->written.tv_sec != other->written.tv_sec)
		return one->written.tv_sec < other->written.tv_sec ? 1 : -1;
	if (one->written.tv_nsec != other->written.tv_nsec)
		return one->written.tv_nsec < other->written.tv_nsec ? 1 : -1;
	return strcmp(other->name, one->name);
}

static struct error *must_check remove_oldest(const struct names *n, size_t keep)
{
	_cleanup_old_files_ struct old_files old = {0};
	DIR *folder = opendir(*n->folder ? n->folder : ".");
	struct error *err = NULL;
	struct dirent *entry;

	if (!folder)
		return NULL;
	while (!err && (entry = readdir(folder)))
		if (is_ours(n, entry->d_name))
			err = note(&old, folder, entry->d_name);
	if (old.count)
		qsort(old.files, old.count, sizeof(*old.files), newest_first);
	for (size_t i = keep; !err && i < old.count; i++)
		if (unlinkat(dirfd(folder), old.files[i].name, 0) && errno != ENOENT)
			say("cannot remove the old file %s%s: %s", n->folder, old.files[i].name,
			    strerror(errno));
	closedir(folder);
	return err;
}

/* ---- one after the other ---- */

static int run_child(record_once once, void *arg, char *path, double seconds)
{
	int status = EXIT_DONE;
	struct error *err = once(arg, path, seconds, &status);

	if (err) {
		status = err->code == ERROR_USAGE ? EXIT_USAGE : EXIT_FAILED;
		if (err->code != ERROR_STOPPED)
			say("%s", err->message);
		error_destroy(err);
	}
	return fflush(stdout) ? EXIT_FAILED : status;
}

static struct error *must_check record_next(record_once once, void *arg, char *path, double seconds,
					    int *ret)
{
	int status = 0;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid < 0)
		return error_format(ERROR_FAILED, "cannot start another process: %s",
				    strerror(errno));
	if (!pid)
		_exit(run_child(once, arg, path, seconds));
	stop_forward(pid);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	stop_forward(0);
	*ret = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	return NULL;
}

struct error *record_every_run(const struct record_every *every, const char *path, double duration,
			       record_once once, void *arg, int *ret)
{
	_cleanup_names_ struct names names = {0};
	uint64_t began = clock_now();
	struct error *err = split(path, &names);

	for (uint64_t i = 1; !err && !*ret && !stop_requested; i++) {
		_cleanup_free_ char *name = new_name(&names);
		double passed = (clock_now() - began) / 1e9, due = i * every->seconds;

		if (duration > 0 && due > duration)
			due = duration;
		if (duration > 0 && passed > duration - LEAST_SECONDS)
			break;
		/* The files begin at a regular pace, however long it takes to write one. */
		if (due - passed < LEAST_SECONDS)
			continue;
		err = name ? record_next(once, arg, name, due - passed, ret) : &error_no_memory;
		*ret = *ret == RECORD_EVERY_NOTHING ? 0 : *ret;
		if (!err && every->keep > 0)
			err = remove_oldest(&names, every->keep);
	}
	return err;
}
