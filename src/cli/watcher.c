#include "cli/watcher.h"

#include <errno.h>
#include <fcntl.h>
#include <gospect/confine.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/cli.h"
#include "cli/process_file.h"
#include "cli/stop.h"

/* How long a killed watcher may take to end. */
#define REAP_MS 1000

_Static_assert(sizeof(struct watcher_message) <= 4096, "a pipe keeps so much together");

/* ---- in the child ---- */

static void put(int to, enum watcher_kind kind, const char *word, const char *text,
		const struct gospect_watch_info *info)
{
	struct watcher_message m = {.kind = kind};
	ssize_t n;

	snprintf(m.word, sizeof(m.word), "%s", word);
	snprintf(m.text, sizeof(m.text), "%s", text);
	if (info)
		m.info = *info;
	do
		n = write(to, &m, sizeof(m));
	while (n < 0 && errno == EINTR);
}

struct work {
	pid_t target;
	int to;
};

static void put_incident(void *arg, const char *word, const char *sentence)
{
	const struct work *w = arg;

	put(w->to, WATCHER_INCIDENT, word, sentence, NULL);
}

static void put_remark(void *arg, const char *line)
{
	const struct work *w = arg;

	put(w->to, WATCHER_REMARK, "", line, NULL);
}

static struct error *must_check look(struct work *w, const struct gospect_watch_options *given,
				     struct gospect_watch_info *info)
{
	struct gospect_watch_options how = *given;
	const struct gospect_confine_options confine = {.size = sizeof(confine),
							.pid = w->target,
							.remark = put_remark,
							.arg = w};
	const struct gospect_target_options open = {.size = sizeof(open),
						    .cancel = stop_cancel,
						    .remark = put_remark,
						    .arg = w};
	struct gospect_target *target = NULL;
	struct error *err = library_error(gospect_confine(&confine));

	how.incident = put_incident;
	how.arg = w;
	if (!err)
		err = library_error(gospect_target_open_process(w->target, &open, &target));
	if (!err)
		err = library_error(gospect_watch(target, &how, info));
	gospect_target_close(target);
	return err;
}

static _Noreturn void run_child(pid_t target, int to, const struct gospect_watch_options *how,
				pid_t parent)
{
	struct work w = {target, to};
	struct gospect_watch_info info = {0};
	struct error *err;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	err = look(&w, how, &info);
	if (err && err->code != ERROR_STOPPED)
		put(to, WATCHER_FAILED, "", err->message, NULL);
	else
		put(to, WATCHER_ENDED, "", "", &info);
	gospect_confine_end();
	_exit(0);
}

/* ---- in the parent ---- */

struct error *watcher_start(struct watcher *l, pid_t target,
			    const struct gospect_watch_options *how, const struct watcher *others,
			    size_t count)
{
	pid_t parent = getpid();
	struct error *err;
	int pipe[2];

	*l = (struct watcher){.target = target, .from = -1};
	err = process_file_name(target, &l->name);
	if (err)
		return err;
	if (pipe2(pipe, O_CLOEXEC))
		return error_errno(ERROR_FAILED, errno, "cannot create a pipe");
	fflush(NULL);
	l->child = fork();
	if (!l->child) {
		for (size_t i = 0; i < count; i++)
			if (others[i].from >= 0)
				close(others[i].from);
		close(pipe[0]);
		run_child(target, pipe[1], how, parent);
	}
	close(pipe[1]);
	l->from = pipe[0];
	if (l->child > 0)
		return NULL;
	l->child = 0;
	watcher_end(l);
	return error_errno(ERROR_FAILED, errno, "cannot start a process");
}

/* A word goes into a file's name: letters alone. */
static void clean(struct watcher_message *m)
{
	m->word[sizeof(m->word) - 1] = '\0';
	m->text[sizeof(m->text) - 1] = '\0';
	m->word[strspn(m->word, "abcdefghijklmnopqrstuvwxyz")] = '\0';
	if (!*m->word)
		strcpy(m->word, "incident");
}

bool watcher_read(struct watcher *l, struct watcher_message *ret)
{
	ssize_t n;

	do
		n = l->from < 0 ? 0 : read(l->from, ret, sizeof(*ret));
	while (n < 0 && errno == EINTR);
	if (n != sizeof(*ret)) {
		watcher_end(l);
		return false;
	}
	clean(ret);
	return true;
}

/* It only reads, so nothing is lost. One that the kernel does not let die is left behind. */
static void end_child(pid_t pid)
{
	const struct timespec pause = {.tv_nsec = 1000000};

	kill(pid, SIGKILL);
	for (int ms = 0; ms < REAP_MS && !waitpid(pid, NULL, WNOHANG); ms++)
		nanosleep(&pause, NULL);
}

void watcher_end(struct watcher *l)
{
	if (l->from >= 0)
		close(l->from);
	l->from = -1;
	if (l->child > 0)
		end_child(l->child);
	l->child = 0;
	free(take_ptr(l->name));
}
