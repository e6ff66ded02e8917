#include "inject/guardian.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "inject/guardian_line.h"
#include "inject/hasten.h"
#include "inject/operation.h"
#include "inject/priority.h"
#include "inject/threads.h"
#include "target/proc_status.h"

/* A stop of the target that takes longer is looked into. */
#define HOLD_MS 20
/* Between two looks whether gospect was killed and gets no CPU to end. */
#define LOOK_MS 500
/* Between two tries to take the agent out: twice as long each time. */
#define RETRY_US 1000u
#define MOST_RETRY_US 2000000u
/* A thread that was just to make a system call for gospect still makes it when gospect has died: it
 * needs a CPU for that. */
#define SETTLE_NS 500000000ull

/* ---- the process ---- */

/* They are blocked, too, since it was forked. */
static void ignore_signals(void)
{
	for (int i = 1; i <= SIGRTMAX; i++)
		if (i != SIGCHLD)
			signal(i, SIG_IGN);
}

static void close_others(const struct target *t, int channel)
{
	_cleanup_closedir_ DIR *folder = descriptor_folder_open(0);
	char to[64];
	int fd;

	while (folder && (fd = descriptor_folder_next(folder, to, sizeof(to))) >= 0)
		if (fd != dirfd(folder) && fd != channel && !target_has_descriptor(t, fd))
			close(fd);
}

/* The three that everybody expects, so that no other file gets their numbers. */
static void open_standard(void)
{
	for (int fd = open("/dev/null", O_RDWR); fd >= 0 && fd < 2;)
		fd = dup(fd);
}

/* Until the surgeon, our parent, has ended. true: it held threads then. `gospect` is the process
 * for which it works. */
static bool watch(int channel, pid_t surgeon, pid_t gospect)
{
	bool holds = false, continued = false;
	char message;

	for (;;) {
		struct pollfd fd = {channel, POLLIN, 0};
		int n = poll(&fd, 1, holds ? HOLD_MS : LOOK_MS);

		if (n > 0 && read(channel, &message, 1) <= 0)
			return holds;
		if (n > 0 && message == GUARDIAN_DISMISSED)
			_exit(0);
		if (n > 0)
			holds = message == GUARDIAN_HOLDS;
		if (!n)
			hasten_end(gospect);
		/* It is ours as long as it is our parent. */
		if (!n && holds && getppid() == surgeon && thread_state(surgeon, surgeon) == 'T') {
			continued = true;
			kill(surgeon, SIGCONT);
		} else if (n > 0 && !holds && continued) {
			continued = false;
			kill(surgeon, SIGSTOP);
		}
	}
}

static _Noreturn void guard(const struct surgeon *s, int channel, pid_t surgeon)
{
	const pid_t gospect = s->named ? s->named : surgeon;
	unsigned int pause = RETRY_US;
	uint64_t settled = 0;

	setsid();
	/* The request that ended gospect is not for the guardian. */
	threads_end = NULL;
	ignore_signals();
	priority_raise_own();
	prctl(PR_SET_NAME, "gospect-guard");
	if (chdir("/"))
		_exit(1);
	close_others(s->t, channel);
	open_standard();
	if (watch(channel, surgeon, gospect))
		settled = clock_now() + SETTLE_NS;
	priority_settle();
	priority_drop_own();
	/* The surgeon ends ahead of a gospect that gets no CPU, and then nobody else looks. */
	hasten_end(gospect);
	while (!operation_finds_clean(s) || clock_now() < settled) {
		usleep(pause);
		pause = pause < MOST_RETRY_US / 2 ? 2 * pause : MOST_RETRY_US;
		hasten_end(gospect);
	}
	_exit(0);
}

/* ---- its parent ---- */

struct error *guardian_start(const struct surgeon *s)
{
	pid_t surgeon = getpid(), pid;
	sigset_t all, mask;
	int ends[2];

	if (guardian_pid())
		return NULL;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return error_errno(ERROR_FAILED, errno, "cannot create a socket");
	priority_prepare(s->pid);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &mask);
	pid = fork();
	if (!pid)
		guard(s, ends[0], surgeon);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	close(ends[0]);
	if (pid < 0) {
		close(ends[1]);
		return error_errno(ERROR_FAILED, errno, "cannot start a process");
	}
	guardian_line_open(pid, ends[1]);
	return NULL;
}
