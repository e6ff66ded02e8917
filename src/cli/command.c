#include "cli/command.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/cli.h"
#include "cli/stop.h"

#define OOM_FILE "/proc/self/oom_score_adj"

/* "" if it cannot be read. */
static char oom_score[16];

void command_remember(void)
{
	_cleanup_close_ int fd = open(OOM_FILE, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, oom_score, sizeof(oom_score) - 1);

	oom_score[n < 0 ? 0 : n] = 0;
}

void command_offer_to_be_killed(void)
{
	_cleanup_close_ int fd = open(OOM_FILE, O_WRONLY | O_CLOEXEC);

	if (fd >= 0)
		(void)!write(fd, "1000", 4);
}

/* gospect may have offered itself to the OOM killer; the command must not inherit that. */
static void restore_oom_score(void)
{
	_cleanup_close_ int fd = open(OOM_FILE, O_RDWR | O_CLOEXEC);
	char now[sizeof(oom_score)] = "";

	if (fd < 0 || read(fd, now, sizeof(now) - 1) < 0 || !strcmp(now, oom_score))
		return;
	if (pwrite(fd, oom_score, strlen(oom_score), 0) < 0)
		return;
}

/* `mask`: the signals that were blocked when gospect began. The child waits for a byte from the
 * gate, or for gospect's end. A signal before exec takes effect on the command. */
static void run_command(char **command, const sigset_t *mask, int report, const int gate[2])
{
	char byte;
	int err;

	close(gate[1]);
	stop_forget();
	restore_oom_score();
	sigprocmask(SIG_SETMASK, mask, NULL);
	/* Yama permits a parent, but not the parent's broker: PR_SET_PTRACER permits a process and
	 * all its children. */
	prctl(PR_SET_PTRACER, getppid(), 0, 0, 0);
	if (read(gate[0], &byte, 1) != 1)
		_exit(127);
	execvp(command[0], command);
	err = errno;
	if (write(report, &err, sizeof(err)) < 0)
		_exit(127);
	_exit(127);
}

static pid_t fork_command(char **command, int report, const int gate[2])
{
	sigset_t all, mask;
	pid_t pid;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &mask);
	pid = fork();
	if (!pid)
		run_command(command, &mask, report, gate);
	sigprocmask(SIG_SETMASK, &mask, NULL);
	return pid;
}

static bool has_privilege(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISREG(st.st_mode) && !access(path, X_OK) &&
	       (st.st_mode & (S_ISUID | S_ISGID) ||
		getxattr(path, "security.capability", NULL, 0) > 0);
}

/* exec drops the privilege (setuid) of a traced program if its tracer has none. The program would
 * then behave differently than without gospect. */
static bool would_gain_privilege(const char *name)
{
	const char *folders = getenv("PATH");
	char path[PATH_MAX];

	if (!geteuid())
		return false;
	if (strchr(name, '/') || !folders)
		return has_privilege(name);
	for (size_t n; *folders; folders += n + (folders[n] == ':')) {
		n = strcspn(folders, ":");
		snprintf(path, sizeof(path), "%.*s/%s", n ? (int)n : 1, n ? folders : ".", name);
		if (!access(path, X_OK))
			return has_privilege(path);
	}
	return false;
}

/* The pipe closes when exec succeeds, and carries errno when exec fails. */
static struct error *must_check await_exec(const char *name, pid_t pid, int from)
{
	ssize_t n;
	int err;

	do
		n = read(from, &err, sizeof(err));
	while (n < 0 && errno == EINTR);
	if (n != sizeof(err))
		return NULL;
	waitpid(pid, NULL, 0);
	return error_errno(ERROR_FAILED, err, "cannot start %s", name);
}

struct error *command_start(char **command, struct gospect_hold **ret_hold, pid_t *ret)
{
	_cleanup_close_ int from = -1, gate = -1, open_gate = -1;
	int pipes[2], gates[2];
	struct error *err;
	pid_t pid;

	stop_on_signals();
	if (pipe2(gates, O_CLOEXEC))
		return error_errno(ERROR_FAILED, errno, "cannot start %s", command[0]);
	gate = gates[0];
	open_gate = gates[1];
	if (pipe2(pipes, O_CLOEXEC))
		return error_errno(ERROR_FAILED, errno, "cannot start %s", command[0]);
	from = pipes[0];
	pid = fork_command(command, pipes[1], gates);
	close(pipes[1]);
	if (pid < 0)
		return error_errno(ERROR_FAILED, errno, "cannot start %s", command[0]);
	if (ret_hold && !would_gain_privilege(command[0]))
		gospect_error_destroy(gospect_hold_start(pid, ret_hold));
	(void)!write(open_gate, "", 1);
	err = await_exec(command[0], pid, from);
	if (err && ret_hold)
		gospect_hold_release(take_ptr(*ret_hold));
	if (!err)
		*ret = pid;
	return err;
}

int command_wait(pid_t pid)
{
	siginfo_t info;
	int status;

	/* The process id stays reserved until the child is reaped. */
	stop_forward(pid);
	while (waitid(P_PID, pid, &info, WEXITED | WNOWAIT) && errno == EINTR)
		;
	stop_forward(0);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return EXIT_FAILED;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
