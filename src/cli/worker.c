#include "cli/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <gospect/confine.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h"

static struct error *must_check confine(const struct worker_job *job)
{
	const struct gospect_confine_options how = {.size = sizeof(how),
						    .pid = job->target,
						    .flags = job->cleans ? 0
									 : GOSPECT_CONFINE_SAMPLES,
						    .memory = job->memory,
						    .cpu_seconds = job->cpu_seconds,
						    .remark = say_remark};

	return library_error(gospect_confine(&how));
}

static _Noreturn void work(const struct worker_job *job, pid_t parent, int to)
{
	struct gospect_surgeon *surgeon = NULL;
	struct error *err = NULL;

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	if (job->cleans)
		err = library_error(gospect_surgeon_start(job->target, NULL, &surgeon));
	if (!err)
		err = confine(job);
	job->work(job->result, surgeon, err);
	_exit(write(to, job->result, job->size) == (ssize_t)job->size ? 0 : 1);
}

struct error *worker_start(struct worker *w, const struct worker_job *job, uint64_t deadline_ns)
{
	pid_t parent = getpid();
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return error_errno(ERROR_FAILED, errno, "cannot create a pipe");
	w->pid = fork();
	if (!w->pid)
		work(job, parent, ends[1]);
	close(ends[1]);
	if (w->pid < 0) {
		close(ends[0]);
		return error_errno(ERROR_FAILED, errno, "cannot start a process");
	}
	setpgid(w->pid, w->pid); /* it does so, too: whoever comes first */
	w->pipe = ends[0];
	w->job = job;
	w->deadline_ns = deadline_ns;
	return NULL;
}

/* The result is of one write, which a pipe does not cut. */
static bool read_result(const struct worker *w)
{
	uint8_t bytes[WORKER_MAX_RESULT];
	size_t size = w->job->size;

	if (clock_now() >= w->deadline_ns || read(w->pipe, bytes, size) != (ssize_t)size)
		return false;
	memcpy(w->job->result, bytes, size);
	return true;
}

/* It was given a program or memory that no Go program has. */
static struct error *must_check blame(bool late, int status)
{
	if (late)
		return error_format(ERROR_CORRUPT,
				    "reading it takes too long: its program is corrupt or hostile");
	if (WIFSIGNALED(status))
		return error_format(
			ERROR_CORRUPT,
			"reading it failed (%s): its program or memory is corrupt or hostile",
			strsignal(WTERMSIG(status)));
	return error_format(ERROR_CORRUPT, "reading it failed");
}

struct error *worker_finish(struct worker *w)
{
	bool late = clock_now() >= w->deadline_ns, have = read_result(w);
	int status = 0;

	if (late)
		kill(-w->pid, SIGKILL);
	/* A thread that the kernel does not let go of is left behind. */
	while (waitpid(w->pid, &status, late ? WNOHANG : 0) < 0 && errno == EINTR)
		;
	close(w->pipe);
	w->pipe = -1;
	return have ? NULL : blame(late, status);
}

struct error *worker_wait(struct worker *w)
{
	struct pollfd fd = {.fd = w->pipe, .events = POLLIN};
	uint64_t now = clock_now();

	while (now < w->deadline_ns && poll(&fd, 1, (w->deadline_ns - now) / 1000000 + 1) < 0 &&
	       errno == EINTR)
		now = clock_now();
	return worker_finish(w);
}
