#include "cli/try_target.h"

#include <errno.h>
#include <fcntl.h>
#include <gospect/confine.h>
#include <gospect/target.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/cli.h"
#include "cli/stop.h"

/* Opening a large program takes less than a second. */
#define PATIENCE_MS 10000

struct verdict {
	uint32_t failed;
	uint32_t code; /* of its error */
	char text[2048];
};

/* One write, which a pipe keeps whole. */
_Static_assert(sizeof(struct verdict) <= 4096, "a pipe keeps so much together");

static struct error *must_check open_target(pid_t pid, const char *exe)
{
	const char *files[] = {exe, NULL};
	const struct gospect_confine_options confine = {.size = sizeof(confine),
							.pid = pid,
							.files = files};
	const struct gospect_target_options how = {.size = sizeof(how),
						   .exe = exe,
						   .cancel = stop_cancel};
	struct gospect_target *target = NULL;
	struct error *err = library_error(gospect_confine(&confine));

	if (!err)
		err = library_error(gospect_target_open_process(pid, &how, &target));
	gospect_target_close(target);
	return err;
}

static _Noreturn void run_child(pid_t pid, const char *exe, int to, pid_t parent)
{
	struct verdict v = {0};
	struct error *err;
	ssize_t n;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	err = open_target(pid, exe);
	gospect_confine_end();
	if (err) {
		v.failed = err->code != ERROR_STOPPED;
		v.code = err->code;
		snprintf(v.text, sizeof(v.text), "%s", err->message);
	}
	do
		n = write(to, &v, sizeof(v));
	while (n < 0 && errno == EINTR);
	_exit(0);
}

/* What it says in time; false: nothing. */
static bool hear(int from, struct verdict *ret)
{
	struct pollfd look = {.fd = from, .events = POLLIN};

	if (poll(&look, 1, PATIENCE_MS) <= 0 || read(from, ret, sizeof(*ret)) != sizeof(*ret))
		return false;
	ret->text[sizeof(ret->text) - 1] = '\0';
	return true;
}

struct error *try_target(pid_t pid, const char *exe)
{
	_cleanup_close_ int from = -1;
	pid_t parent = getpid(), child;
	struct verdict v;
	int pipe[2];
	bool heard;

	if (pipe2(pipe, O_CLOEXEC))
		return error_errno(ERROR_FAILED, errno, "cannot create a pipe");
	from = pipe[0];
	fflush(NULL);
	child = fork();
	if (!child)
		run_child(pid, exe, pipe[1], parent);
	close(pipe[1]);
	if (child < 0)
		return error_errno(ERROR_FAILED, errno, "cannot start a process");
	heard = hear(from, &v);
	kill(child, SIGKILL);
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	if (!heard || !v.failed)
		return NULL;
	return error_format(v.code < ERROR_USAGE ? (enum error_code)v.code : ERROR_FAILED, "%s",
			    v.text);
}
