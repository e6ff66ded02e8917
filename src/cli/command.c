#include "cli/command.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/cli.h"
#include "cli/stop.h"

#define OOM_FILE "/proc/self/oom_score_adj"

/* "" where it cannot be read. */
static char oom_score[16];

void command_remember(void)
{
	_cleanup_close_ int fd = open(OOM_FILE, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, oom_score, sizeof(oom_score) - 1);

	oom_score[n < 0 ? 0 : n] = 0;
}

/* Gospect may have offered itself to the OOM killer, which is no reason to kill the command. */
static void restore_oom_score(void)
{
	_cleanup_close_ int fd = open(OOM_FILE, O_RDWR | O_CLOEXEC);
	char now[sizeof(oom_score)] = "";

	if (fd < 0 || read(fd, now, sizeof(now) - 1) < 0 || !strcmp(now, oom_score))
		return;
	if (pwrite(fd, oom_score, strlen(oom_score), 0) < 0)
		return;
}

/* `mask`: the signals that were blocked when gospect began. One that arrives before exec has its
 * effect on the command. */
static void run_command(char **command, const sigset_t *mask, int report)
{
	int err;

	stop_forget();
	restore_oom_score();
	sigprocmask(SIG_SETMASK, mask, NULL);
	/* Yama lets a parent look, but not the parent's broker: who is named here and all that it
	 * starts may. */
	prctl(PR_SET_PTRACER, getppid(), 0, 0, 0);
	execvp(command[0], command);
	err = errno;
	if (write(report, &err, sizeof(err)) < 0)
		_exit(127);
	_exit(127);
}

static pid_t fork_command(char **command, int report)
{
	sigset_t all, mask;
	pid_t pid;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &mask);
	pid = fork();
	if (!pid)
		run_command(command, &mask, report);
	sigprocmask(SIG_SETMASK, &mask, NULL);
	return pid;
}

/* The pipe closes when exec succeeds, and brings its errno when it fails. */
struct error *command_start(char **command, pid_t *ret)
{
	_cleanup_close_ int from = -1;
	int pipes[2], err;
	pid_t pid;
	ssize_t n;

	stop_on_signals();
	if (pipe2(pipes, O_CLOEXEC))
		return error_errno(ERROR_FAILED, errno, "cannot start %s", command[0]);
	from = pipes[0];
	pid = fork_command(command, pipes[1]);
	close(pipes[1]);
	if (pid < 0)
		return error_errno(ERROR_FAILED, errno, "cannot start %s", command[0]);
	do
		n = read(from, &err, sizeof(err));
	while (n < 0 && errno == EINTR);
	if (n == sizeof(err)) {
		waitpid(pid, NULL, 0);
		return error_errno(ERROR_FAILED, err, "cannot start %s", command[0]);
	}
	*ret = pid;
	return NULL;
}

int command_wait(pid_t pid)
{
	siginfo_t info;
	int status;

	/* Its id stays its own until it is waited for. */
	stop_forward(pid);
	while (waitid(P_PID, pid, &info, WEXITED | WNOWAIT) && errno == EINTR)
		;
	stop_forward(0);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return EXIT_FAILED;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
