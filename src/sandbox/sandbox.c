#include "sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "sandbox/capabilities.h"
#include "sandbox/filter.h"

/* The broker, and the process of the service that has its own. */
struct half {
	pid_t pid; /* 0: there is none */
	int socket;
};

static struct half broker = {0, -1}, apart = {0, -1};
static bool entered;

bool sandbox_is_built(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
	return false;
#endif
#endif
	return true;
}

bool sandbox_is_entered(void)
{
	return entered;
}

/* ---- the broker's process ---- */

/* Readers of our output must see its end when gospect ends. */
static void close_all_but(int a, int b)
{
	int first = a < b ? a : b, last = a < b ? b : a;
	int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = 0; fd < 3 && nothing >= 0; fd++)
		if (fd != first && fd != last)
			dup2(nothing, fd);
	if (first > 3)
		close_range(3, first - 1, 0);
	if (last > first + 1 && first >= 3)
		close_range(first + 1, last - 1, 0);
	close_range(last + 1, ~0u, 0);
}

/* It ends when gospect does, and not before: a signal for all of a terminal's processes, or of a
 * service's, is for gospect to act on. */
static void ignore_signals(void)
{
	for (int number = 1; number < NSIG; number++)
		if (number != SIGCHLD && number != SIGSEGV && number != SIGBUS &&
		    number != SIGABRT && number != SIGSYS)
			signal(number, SIG_IGN);
}

/* `nice` is gospect's, which is reset with a real-time priority that children do not get. */
static _Noreturn void run_broker(const struct broker_policy *policy, const char *name, int socket,
				 int nice)
{
	struct broker *b;

	prctl(PR_SET_NAME, name);
	setpriority(PRIO_PROCESS, 0, nice);
	ignore_signals();
	close_all_but(socket, policy->keep > 2 ? policy->keep : socket);
	if (error_dropped(broker_create(policy, &b)))
		_exit(1);
	while (broker_answer(b, socket))
		;
	_exit(0);
}

/* ---- gospect itself ---- */

static void limit(int resource, uint64_t value)
{
	struct rlimit now;

	if (getrlimit(resource, &now) || now.rlim_cur < value)
		return;
	now.rlim_cur = now.rlim_max = value;
	setrlimit(resource, &now);
}

static struct error *must_check confine(const struct sandbox_options *o)
{
	struct error *err = capabilities_keep(o->keep);

	if (o->memory)
		limit(RLIMIT_DATA, o->memory);
	if (o->cpu_seconds)
		limit(RLIMIT_CPU, o->cpu_seconds);
	limit(RLIMIT_CORE, 0);
	if (!err)
		err = filter_install(o->policy.pid, o->child);
	entered = !err;
	return err;
}

static struct error *must_check start(const struct broker_policy *policy, const char *name,
				      struct half *ret)
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

static void end(struct half *half)
{
	if (half->socket >= 0)
		close(half->socket);
	while (half->pid > 0 && waitpid(half->pid, NULL, 0) < 0 && errno == EINTR)
		;
	*half = (struct half){0, -1};
}

/* Services of gospect's own policy are the broker's. */
static struct error *must_check start_apart(const struct sandbox_options *options)
{
	static struct broker_policy policy;

	if (!options->apart.serve)
		return NULL;
	policy = (struct broker_policy){.serves_alone = true};
	policy.services[options->apart_number] = options->apart;
	return start(&policy, options->apart_name, &apart);
}

struct error *sandbox_enter(const struct sandbox_options *options)
{
	struct error *err;

	if (!sandbox_is_built())
		return NULL;
	err = start(&options->policy, "gospect-broker", &broker);
	if (!err)
		err = start_apart(options);
	if (err) {
		sandbox_leave();
		return err;
	}
	err = confine(options);
	door_set(broker_door(broker.socket, options->apart_number, apart.socket));
	return err;
}

void sandbox_leave(void)
{
	if (broker.socket < 0)
		return;
	door_set(NULL);
	end(&broker);
	end(&apart);
}
