#include "inject/holder.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/descriptors.h"
#include "inject/breakpoint.h"
#include "inject/code_memory.h"

/* The holder's reports, and its orders. */
enum { IS_TRACED = 1, IS_DENIED, HAS_EXECED, IS_HELD, IS_LOST };
enum { PASS = 1, HOLD, RELEASE };

struct word {
	uint32_t what;
	uint64_t address;
};

/* ---- the process ---- */

struct hold {
	pid_t child;
	int channel;
	int signals;
	int memory; /* of the child */
	uint64_t address;
	uint8_t before[BREAKPOINT_MOST]; /* the original bytes */
	bool traced;
	bool stopped; /* for exec: it waits for us */
	bool broken;  /* there is a breakpoint */
	bool held;    /* there is the jump */
};

static void report(const struct hold *h, unsigned int what)
{
	struct word w = {.what = what};

	(void)!send(h->channel, &w, sizeof(w), MSG_NOSIGNAL);
}

static bool write_bytes(const struct hold *h, const void *bytes, size_t size)
{
	return pwrite(h->memory, bytes, size, (off_t)h->address) == (ssize_t)size ||
	       code_memory_poke(h->child, h->address, bytes, size);
}

static bool write_code(const struct hold *h, const struct machine_code *code)
{
	return write_bytes(h, code->bytes, code->size);
}

static void write_before(const struct hold *h)
{
	write_bytes(h, h->before, breakpoint_loop.size);
}

static void forget_memory(struct hold *h)
{
	if (h->memory >= 0)
		close(h->memory);
	h->memory = -1;
}

/* While it is stopped. */
static bool set_breakpoint(struct hold *h, uint64_t address)
{
	ssize_t size = breakpoint_loop.size;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/mem", h->child);
	forget_memory(h);
	h->memory = open(path, O_RDWR | O_CLOEXEC);
	h->address = address;
	if (h->memory < 0 || pread(h->memory, h->before, size, (off_t)address) != size)
		return false;
	h->broken = write_code(h, &breakpoint_code);
	return h->broken;
}

static void go_on(struct hold *h, int number)
{
	ptrace(PTRACE_CONT, h->child, NULL, (void *)(long)number);
	h->stopped = false;
}

static void let_go(struct hold *h)
{
	ptrace(PTRACE_DETACH, h->child, NULL, NULL);
	h->traced = h->stopped = false;
}

/* It has come to the breakpoint: from now on it goes round there. */
static void hold_here(struct hold *h)
{
	h->broken = false;
	h->held = write_code(h, &breakpoint_loop) && breakpoint_go_to(h->child, h->address);
	if (!h->held)
		write_before(h);
	let_go(h);
	report(h, h->held ? IS_HELD : IS_LOST);
}

static bool is_at_breakpoint(const struct hold *h, int status)
{
	return h->broken && WSTOPSIG(status) == SIGTRAP && !(status >> 16) &&
	       breakpoint_is_at(h->child, h->address);
}

/* Handles a stop elsewhere than at the breakpoint: reports an exec, passes a signal on. */
static void pass_on(struct hold *h, int status)
{
	switch (status >> 16) {
	case PTRACE_EVENT_EXEC:
		h->broken = false;
		h->stopped = true;
		report(h, HAS_EXECED);
		break;
	case PTRACE_EVENT_STOP:
		if (WSTOPSIG(status) == SIGTRAP)
			go_on(h, 0);
		else
			ptrace(PTRACE_LISTEN, h->child, NULL, NULL);
		break;
	case 0:
		go_on(h, WSTOPSIG(status));
		break;
	default:
		go_on(h, 0);
	}
}

static void look_at_child(struct hold *h)
{
	int status;

	while (h->traced && waitpid(h->child, &status, WNOHANG | __WALL) == h->child) {
		if (!WIFSTOPPED(status)) {
			h->traced = h->broken = false;
			report(h, IS_LOST);
		} else if (is_at_breakpoint(h, status)) {
			hold_here(h);
		} else {
			pass_on(h, status);
		}
	}
}

static bool trace_child(struct hold *h, long options)
{
	h->traced = !ptrace(PTRACE_SEIZE, h->child, NULL, (void *)options);
	return h->traced;
}

/* Until it stands still; false: it has ended. */
static bool stop_child(struct hold *h)
{
	int status;

	if (ptrace(PTRACE_INTERRUPT, h->child, NULL, NULL))
		return h->stopped;
	for (;;) {
		if (waitpid(h->child, &status, __WALL) != h->child || !WIFSTOPPED(status))
			return false;
		if (status >> 16 == PTRACE_EVENT_STOP || status >> 16 == PTRACE_EVENT_EXEC)
			return true;
		go_on(h, status >> 16 ? 0 : WSTOPSIG(status));
	}
}

/* All that was written is undone while the only thread that comes there is stopped. */
static void restore(struct hold *h)
{
	if (!h->traced && !h->held)
		return;
	if (!h->traced && !trace_child(h, 0)) {
		/* Somebody else traces it: the bytes are written at once anyway. */
		write_before(h);
		return;
	}
	if (!h->stopped && !stop_child(h))
		return;
	if (h->broken || h->held)
		write_before(h);
	let_go(h);
}

/* False: that was all. */
static bool obey(struct hold *h)
{
	struct word w;

	if (recv(h->channel, &w, sizeof(w), 0) != sizeof(w) || w.what == RELEASE)
		return false;
	if (w.what == HOLD && h->stopped && !set_breakpoint(h, w.address))
		report(h, IS_LOST);
	if (h->stopped)
		go_on(h, 0);
	return true;
}

static int watch_children(void)
{
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	return signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* All signals are blocked since it was forked: it ends when gospect does, and not before. */
static _Noreturn void run(pid_t child, int channel)
{
	struct hold h = {.child = child, .channel = channel, .memory = -1};
	struct pollfd fds[2] = {{.fd = channel, .events = POLLIN}, {.events = POLLIN}};
	struct signalfd_siginfo info;

	prctl(PR_SET_NAME, "gospect-hold");
	/* Other processes wait for the end of some. */
	descriptors_keep(channel, channel);
	h.signals = fds[1].fd = watch_children();
	if (h.signals < 0 || !trace_child(&h, PTRACE_O_TRACEEXEC)) {
		report(&h, IS_DENIED);
		_exit(0);
	}
	report(&h, IS_TRACED);
	for (;;) {
		poll(fds, 2, -1);
		while (read(h.signals, &info, sizeof(info)) > 0)
			;
		look_at_child(&h);
		if (fds[0].revents && !obey(&h))
			break;
	}
	restore(&h);
	report(&h, IS_LOST);
	_exit(0);
}

/* ---- its parent ---- */

struct holder {
	pid_t pid;
	int channel;
};

static bool receive(const struct holder *h, int ms, unsigned int *ret)
{
	struct pollfd fd = {.fd = h->channel, .events = POLLIN};
	uint64_t end = clock_now() + (uint64_t)ms * 1000000;
	struct word w;
	int n;

	do {
		uint64_t now = clock_now();

		n = poll(&fd, 1, now < end ? (int)((end - now) / 1000000) : 0);
	} while (n < 0 && errno == EINTR);
	if (n <= 0 || recv(h->channel, &w, sizeof(w), 0) != sizeof(w))
		return false;
	*ret = w.what;
	return true;
}

static void order(const struct holder *h, unsigned int what, uint64_t address)
{
	struct word w = {.what = what, .address = address};

	(void)!send(h->channel, &w, sizeof(w), MSG_NOSIGNAL);
}

static struct error *must_check fork_holder(struct holder *h, pid_t child)
{
	sigset_t all, mask;
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return error_errno(ERROR_FAILED, errno, "cannot create a socket");
	h->channel = ends[0];
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &mask);
	h->pid = fork();
	if (!h->pid) {
		close(ends[0]);
		run(child, ends[1]);
	}
	sigprocmask(SIG_SETMASK, &mask, NULL);
	close(ends[1]);
	return h->pid < 0 ? error_errno(ERROR_FAILED, errno, "cannot start a process") : NULL;
}

struct error *holder_start(pid_t child, struct holder **ret)
{
	_cleanup_holder_ struct holder *h = calloc(1, sizeof(*h));
	unsigned int what;
	struct error *err;

	if (!h)
		return &error_no_memory;
	h->channel = -1;
	err = fork_holder(h, child);
	if (err)
		return err;
	if (!receive(h, 5000, &what) || what != IS_TRACED)
		return error_format(ERROR_DENIED,
				    "cannot trace process %d: ptrace is not permitted", child);
	*ret = take_ptr(h);
	return NULL;
}

bool holder_await_exec(struct holder *h, int ms)
{
	unsigned int what;

	return receive(h, ms, &what) && what == HAS_EXECED;
}

void holder_pass(struct holder *h)
{
	order(h, PASS, 0);
}

bool holder_hold(struct holder *h, uint64_t address, int ms)
{
	unsigned int what;

	order(h, HOLD, address);
	return receive(h, ms, &what) && what == IS_HELD;
}

void holder_release(struct holder *h)
{
	if (!h)
		return;
	if (h->channel >= 0) {
		order(h, RELEASE, 0);
		close(h->channel);
	}
	while (h->pid > 0 && waitpid(h->pid, NULL, 0) < 0 && errno == EINTR)
		;
	free(h);
}
