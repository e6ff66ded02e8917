#include "sandbox/half.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/descriptors.h"

/* It ends when gospect does. Only gospect acts on a signal to all processes of a terminal or a
 * service. */
static void ignore_signals(void)
{
	for (int number = 1; number < NSIG; number++)
		if (number != SIGCHLD && number != SIGSEGV && number != SIGBUS &&
		    number != SIGABRT && number != SIGSYS)
			signal(number, SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
}

/* `nice` is gospect's value. A real-time priority resets it, and children do not inherit that
 * priority. */
static _Noreturn void run_broker(const struct broker_policy *policy, const char *name, int socket,
				 int nice)
{
	struct broker *b;

	prctl(PR_SET_NAME, name);
	setpriority(PRIO_PROCESS, 0, nice);
	ignore_signals();
	/* Readers of gospect's output must see its end when gospect ends. */
	descriptors_keep(socket, policy->keep > 2 ? policy->keep : socket);
	if (error_dropped(broker_create(policy, &b)))
		_exit(1);
	while (broker_answer(b, socket))
		;
	_exit(0);
}

struct error *half_start(const struct broker_policy *policy, const char *name, struct half *ret)
{
	int sockets[2], nice = getpriority(PRIO_PROCESS, 0);

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets))
		return error_errno(ERROR_FAILED, errno, "cannot create a socket");
	ret->pid = fork();
	if (!ret->pid) {
		close(sockets[0]); /* or it would not see the end of gospect */
		run_broker(policy, name, sockets[1], nice);
	}
	close(sockets[1]);
	ret->socket = sockets[0];
	if (ret->pid < 0)
		return error_errno(ERROR_FAILED, errno, "cannot start a process");
	return NULL;
}

void half_end(struct half *half)
{
	if (half->socket >= 0)
		close(half->socket);
	while (half->pid > 0 && waitpid(half->pid, NULL, 0) < 0 && errno == EINTR)
		;
	*half = HALF_NONE;
}
