#include "lib/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <gospect/confine.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "lib/error_api.h"

/* How long a worker that has given its result may take to end, and a killed one. */
#define LEAVE_MS 5000
#define REAP_MS 1000
/* Pauses between checks whether it has ended: most end at once. */
#define FIRST_PAUSE_NS 20000
#define LAST_PAUSE_NS 1000000

static void keep_remark(void *arg, const char *line)
{
	snprintf(arg, WORKER_MAX_REMARK, "%s", line);
}

static struct error *must_check confine(const struct worker_job *job, char *remark)
{
	const struct gospect_confine_options how = {.size = sizeof(how),
						    .pid = job->target,
						    .flags = job->cleans ? 0
									 : GOSPECT_CONFINE_SAMPLES,
						    .memory = job->memory,
						    .cpu_seconds = job->cpu_seconds,
						    .remark = keep_remark,
						    .arg = remark};

	return error_in(gospect_confine(&how));
}

static _Noreturn void work(const struct worker_job *job, pid_t parent, int to)
{
	char remark[WORKER_MAX_REMARK] = "";
	const struct iovec out[] = {{job->result, job->size}, {remark, sizeof(remark)}};
	ssize_t size = job->size + sizeof(remark);
	struct gospect_surgeon *surgeon = NULL;
	struct error *err = NULL;

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	if (job->cleans)
		err = error_in(gospect_surgeon_start(job->target, NULL, &surgeon));
	if (!err)
		err = confine(job, remark);
	job->work(job->result, surgeon, err);
	_exit(writev(to, out, 2) == size ? 0 : 1);
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
	setpgid(w->pid, w->pid); /* the child does so, too: either may be first */
	w->pipe = ends[0];
	w->job = job;
	w->deadline_ns = deadline_ns;
	w->remark[0] = '\0';
	return NULL;
}

/* A result is written at once, so a pipe does not split it. */
static bool read_result(struct worker *w)
{
	uint8_t bytes[WORKER_MAX_RESULT + WORKER_MAX_REMARK];
	size_t size = w->job->size, all = size + sizeof(w->remark);

	if (clock_now() >= w->deadline_ns || read(w->pipe, bytes, all) != (ssize_t)all)
		return false;
	memcpy(w->job->result, bytes, size);
	memcpy(w->remark, bytes + size, sizeof(w->remark));
	w->remark[sizeof(w->remark) - 1] = '\0';
	return true;
}

/* The worker read a program or memory that no Go program has. */
static struct error *must_check blame(bool late, int status)
{
	if (late)
		return error_format(
			ERROR_CORRUPT,
			"reading it takes too long: the machine is busy, or its program is corrupt or hostile");
	if (WIFSIGNALED(status))
		return error_format(
			ERROR_CORRUPT,
			"reading it failed (%s): its program or memory is corrupt or hostile",
			strsignal(WTERMSIG(status)));
	return error_format(ERROR_CORRUPT, "reading it failed");
}

static bool is_gone(pid_t pid, int *status, int flags)
{
	pid_t got;

	do
		got = waitpid(pid, status, flags);
	while (got < 0 && errno == EINTR);
	return got;
}

static bool reap(pid_t pid, int *status, int ms)
{
	uint64_t deadline = clock_now() + ms * 1000000ull;
	struct timespec pause = {.tv_nsec = FIRST_PAUSE_NS};

	while (!is_gone(pid, status, WNOHANG)) {
		if (clock_now() >= deadline)
			return false;
		nanosleep(&pause, NULL);
		if (pause.tv_nsec < LAST_PAUSE_NS)
			pause.tv_nsec *= 2;
	}
	return true;
}

/* A worker that the kernel does not let die is left behind. */
static void kill_worker(pid_t pid, int *status)
{
	kill(-pid, SIGKILL);
	reap(pid, status, REAP_MS);
}

struct error *worker_finish(struct worker *w)
{
	bool late = clock_now() >= w->deadline_ns, have = read_result(w);
	int status = 0;

	/* The worker may close its pipe and stay, or somebody may stop it there. */
	if (late || !reap(w->pid, &status, LEAVE_MS))
		kill_worker(w->pid, &status);
	close(w->pipe);
	w->pipe = -1;
	return have ? NULL : blame(late, status);
}

void worker_end(struct worker *w)
{
	int status;

	kill_worker(w->pid, &status);
	close(w->pipe);
	w->pipe = -1;
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
