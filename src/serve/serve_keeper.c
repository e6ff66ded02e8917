#include "serve/serve_keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "lib/descendants.h"
#include "serve/serve_front.h"
#include "serve/serve_link.h"
#include "serve/serve_names.h"
#include "serve/serve_store.h"
#include "serve/serve_work.h"
#include "target/proc_status.h"

/* Workers at once: all, and those of one process. */
#define MOST_WORKERS 24
#define MOST_WATCHERS SERVE_HISTORY_MOST
#define MOST_OF_PROCESS 12
/* How much longer than it was asked to take a worker may live. */
#define PATIENCE_SECONDS 300
/* How long workers may take to end when all ends: a trace is decoded. */
#define LEAVE_SECONDS 20
/* The HTTP process has nothing to finish. */
#define FRONT_SECONDS 2
/* One that the kernel does not let die is left behind after this time. */
#define REAP_SECONDS 2
#define BACKLOG 128
#define LOOK_MS 200
/* The least memory of a worker, on a machine with enough. */
#define LEAST_MEMORY (512ull << 20)
#define MEMORY_SHARES 8

struct serve_worker {
	pid_t pid; /* 0: none */
	pid_t target;
	uint64_t deadline_ns;
	bool watches;
};

/* The last hour of a process. The keeper maps none of them. */
struct hour {
	pid_t pid;      /* 0: none */
	uint64_t start; /* of the process */
	int store;
};

struct keeper {
	const struct serve_options *options;
	struct serve_limits limits;
	int listener, link;
	pid_t front;
	int *pidfds; /* of options->pids: a process id may be given to another process later */
	struct serve_worker workers[MOST_WORKERS + MOST_WATCHERS];
	struct hour hours[MOST_WATCHERS];
	uint64_t addresses[SERVE_MOST_ADDRESSES];
};

/* ---- listening ---- */

static struct error *must_check open_listener(struct keeper *k)
{
	const struct serve_options *o = k->options;
	const int on = 1;
	char text[SERVE_ADDRESS_SIZE];

	serve_address_text(&o->address, text);
	k->listener = socket(o->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (k->listener < 0)
		return error_errno(ERROR_FAILED, errno, "cannot listen on %s", text);
	setsockopt(k->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(k->listener, (const struct sockaddr *)&o->address, o->address_size) ||
	    listen(k->listener, BACKLOG))
		return error_errno(ERROR_FAILED, errno, "cannot listen on %s", text);
	return NULL;
}

static void say_address(const struct keeper *k)
{
	struct sockaddr_storage address;
	socklen_t size = sizeof(address);
	char text[SERVE_ADDRESS_SIZE];

	if (getsockname(k->listener, (struct sockaddr *)&address, &size))
		return;
	serve_address_text(&address, text);
	k->options->listens(k->options->arg, text);
}

static struct error *must_check start_front(struct keeper *k)
{
	const struct serve_options *o = k->options;
	const struct serve_front_options front = {
		.parent = getpid(),
		.listener = k->listener,
		.only = o->pid_count == 1 && !o->children ? o->pids[0] : 0,
		/* With their children, more may come. */
		.is_fixed = o->pids && !o->children,
		.names = o->names,
		.token = o->token,
		.certificate = o->certificate,
		.key = o->key,
		.client_ca = o->client_ca,
	};
	struct serve_answer ready;
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return error_errno(ERROR_FAILED, errno, "cannot create a socket");
	k->link = ends[0];
	fflush(NULL);
	k->front = fork();
	if (!k->front) {
		struct serve_front_options its = front;

		its.keeper = ends[1];
		close(ends[0]);
		for (size_t i = 0; k->pidfds && i < o->pid_count; i++)
			close(k->pidfds[i]);
		serve_front(&its);
	}
	close(ends[1]);
	if (k->front < 0)
		return error_errno(ERROR_FAILED, errno, "cannot start a process");
	if (!serve_link_await(k->link, &ready) || ready.status)
		return error_format(
			ERROR_FAILED, "%s",
			o->certificate
				? "cannot start the HTTPS server: the certificate, the key or the CA is invalid"
				: "cannot start the HTTP server");
	if (ready.is_unconfined)
		o->unconfined(o->arg);
	say_address(k);
	close(k->listener);
	k->listener = -1;
	return NULL;
}

/* ---- processes ---- */

static struct error *must_check open_pidfds(struct keeper *k)
{
	const struct serve_options *o = k->options;

	if (!o->pids)
		return NULL;
	k->pidfds = malloc((o->pid_count + 1) * sizeof(*k->pidfds));
	if (!k->pidfds)
		return &error_no_memory;
	/* Before Linux 5.3 they stay -1. */
	for (size_t i = 0; i < o->pid_count; i++)
		k->pidfds[i] = (int)syscall(SYS_pidfd_open, o->pids[i], 0);
	return NULL;
}

static bool has_ended(const struct keeper *k, size_t i)
{
	struct pollfd look = {.fd = k->pidfds[i], .events = POLLIN};

	if (look.fd < 0)
		return kill(k->options->pids[i], 0) && errno == ESRCH;
	return poll(&look, 1, 0) > 0;
}

static bool descends(const struct keeper *k, pid_t pid)
{
	const struct serve_options *o = k->options;
	struct descendants all = {0};
	bool found = o->children && !error_dropped(descendants_find(o->pids, o->pid_count, &all)) &&
		     descendants_have(&all, pid);

	descendants_release(&all);
	return found;
}

static bool is_served(const struct keeper *k, pid_t pid)
{
	const struct serve_options *o = k->options;

	if (!pid || !o->pids)
		return true;
	for (size_t i = 0; i < o->pid_count; i++)
		if (o->pids[i] == pid)
			return !has_ended(k, i);
	return descends(k, pid);
}

static bool all_have_ended(const struct keeper *k)
{
	if (!k->options->pids)
		return false;
	for (size_t i = 0; i < k->options->pid_count; i++)
		if (!has_ended(k, i))
			return false;
	return true;
}

/* ---- workers ---- */

/* The front asks for another one when it hears nothing of it. */
static void end_watcher(struct keeper *k, pid_t target)
{
	for (size_t i = 0; i < ARRAY_SIZE(k->workers); i++)
		if (k->workers[i].watches && k->workers[i].target == target)
			k->workers[i].deadline_ns = 0;
}

/* Watchers do not count as work of their process. */
static struct serve_worker *find_room(struct keeper *k, pid_t target, bool watches)
{
	struct serve_worker *room = NULL;
	size_t same = 0, all = 0;

	for (size_t i = 0; i < ARRAY_SIZE(k->workers); i++) {
		const struct serve_worker *w = &k->workers[i];

		if (!w->pid)
			room = &k->workers[i];
		else if (w->watches == watches) {
			all++;
			same += w->target == target;
		}
	}
	if (watches)
		return all < MOST_WATCHERS && !same ? room : NULL;
	return all < MOST_WORKERS && same < MOST_OF_PROCESS ? room : NULL;
}

static void forget(struct keeper *k, pid_t pid)
{
	if (pid == k->front)
		k->front = 0;
	for (size_t i = 0; i < ARRAY_SIZE(k->workers); i++)
		if (k->workers[i].pid == pid)
			k->workers[i].pid = 0;
}

/* ---- the last hours ---- */

static struct hour *find_hour(struct keeper *k, pid_t pid)
{
	for (size_t i = 0; i < ARRAY_SIZE(k->hours); i++)
		if (k->hours[i].pid == pid)
			return &k->hours[i];
	return NULL;
}

static bool is_watched(const struct keeper *k, pid_t pid)
{
	for (size_t i = 0; i < ARRAY_SIZE(k->workers); i++)
		if (k->workers[i].pid && k->workers[i].watches && k->workers[i].target == pid)
			return true;
	return false;
}

/* A free one, or that of a process that is not watched any more. */
static struct hour *room_for_hour(struct keeper *k)
{
	struct hour *room = find_hour(k, 0);

	for (size_t i = 0; !room && i < ARRAY_SIZE(k->hours); i++)
		if (!is_watched(k, k->hours[i].pid))
			room = &k->hours[i];
	return room;
}

/* Of a process that was watched before, and only of the same one. A new one for a worker that
 * begins to watch. */
static int store_of(struct keeper *k, pid_t pid, bool watches)
{
	struct hour *hour = pid ? find_hour(k, pid) : NULL;
	uint64_t start = pid ? process_start(pid) : 0;

	if (hour && hour->start == start)
		return hour->store;
	if (!watches || !start)
		return -1;
	hour = hour ? hour : room_for_hour(k);
	if (!hour)
		return -1;
	if (hour->pid)
		close(hour->store);
	*hour = (struct hour){pid, start, serve_store_create()};
	return hour->store;
}

/* Kills the workers that are late. Waits for all that have ended, and for the brokers that they
 * left behind, which become children of this process. */
static void reap(struct keeper *k)
{
	uint64_t now = clock_now();
	pid_t pid;

	for (size_t i = 0; i < ARRAY_SIZE(k->workers); i++)
		if (k->workers[i].pid && now > k->workers[i].deadline_ns)
			kill(k->workers[i].pid, SIGKILL);
	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
		forget(k, pid);
}

static pid_t fork_worker(struct keeper *k, const struct serve_request *request, const int data[2],
			 const int leash[2])
{
	const struct serve_job job = {
		.request = *request,
		.addresses = k->addresses,
		.data = data[1],
		.leash = leash[0],
		.store = store_of(k, request->pid, request->kind == SERVE_WATCH),
		.parent = getpid(),
		.limits = &k->limits,
	};
	pid_t pid = fork();

	if (pid)
		return pid;
	close(k->link);
	close(data[0]);
	close(leash[1]);
	for (size_t i = 0; k->pidfds && i < k->options->pid_count; i++)
		close(k->pidfds[i]);
	/* It has the last hour of its process alone. */
	for (size_t i = 0; i < ARRAY_SIZE(k->hours); i++)
		if (k->hours[i].pid && k->hours[i].store != job.store)
			close(k->hours[i].store);
	serve_work(&job);
}

static bool answer(const struct keeper *k, uint32_t status, const int fds[SERVE_FDS])
{
	const struct serve_answer a = {.status = status};

	return serve_link_answer(k->link, &a, fds);
}

/* False: the front is gone. */
static bool start_worker(struct keeper *k, const struct serve_request *request)
{
	bool watches = request->kind == SERVE_WATCH;
	struct serve_worker *w = find_room(k, request->pid, watches);
	_cleanup_close_ int from = -1, stop = -1;
	int data[2], leash[2], fds[SERVE_FDS];

	if (!w || pipe2(data, O_CLOEXEC))
		return answer(k, 503, NULL);
	from = data[0];
	if (pipe2(leash, O_CLOEXEC)) {
		close(data[1]);
		return answer(k, 503, NULL);
	}
	stop = leash[1];
	fcntl(from, F_SETFL, O_NONBLOCK);
	fflush(NULL);
	w->pid = fork_worker(k, request, data, leash);
	close(data[1]);
	close(leash[0]);
	if (w->pid < 0) {
		w->pid = 0;
		return answer(k, 503, NULL);
	}
	w->target = request->pid;
	w->watches = watches;
	w->deadline_ns = clock_now() + (uint64_t)((request->seconds + PATIENCE_SECONDS) * 1e9);
	if (watches)
		w->deadline_ns = UINT64_MAX;
	fds[SERVE_FD_DATA] = from;
	fds[SERVE_FD_LEASH] = stop;
	return answer(k, 0, fds);
}

static bool serve_one(struct keeper *k)
{
	struct serve_request request;
	int received = serve_link_receive(k->link, &request, k->addresses);

	if (received <= 0)
		return false;
	if (request.kind == SERVE_WATCH)
		end_watcher(k, request.pid);
	reap(k);
	if (!is_served(k, request.pid) || (request.kind == SERVE_TRACE && !k->options->traces))
		return answer(k, 404, NULL);
	return start_worker(k, &request);
}

/* ---- all ---- */

static struct error *must_check serve(struct keeper *k, bool *ret_ended)
{
	struct pollfd look = {.fd = k->link, .events = POLLIN};

	while (!gospect_cancel_is_requested(k->options->cancel)) {
		int n = poll(&look, 1, LOOK_MS);

		if (n > 0 && !serve_one(k))
			return error_format(
				ERROR_FAILED,
				"the HTTP process of gospect has ended; start gospect again");
		reap(k);
		*ret_ended = all_have_ended(k);
		if (*ret_ended)
			return NULL;
	}
	return NULL;
}

/* Until all have ended. */
static void await_all(struct keeper *k)
{
	const struct timespec pause = {.tv_nsec = 10000000};
	uint64_t began = clock_now(), seconds = 0;

	for (bool any = true; any && seconds < LEAVE_SECONDS + REAP_SECONDS;
	     nanosleep(&pause, NULL)) {
		seconds = (clock_now() - began) / 1000000000;
		any = k->front > 0;
		if (k->front > 0 && seconds >= FRONT_SECONDS)
			kill(k->front, SIGKILL);
		for (size_t i = 0; i < ARRAY_SIZE(k->workers); i++) {
			if (seconds >= LEAVE_SECONDS)
				k->workers[i].deadline_ns = 0;
			any |= k->workers[i].pid != 0;
		}
		reap(k);
	}
}

/* The front ends with its socket, and its end closes the leashes of all workers. */
static void end_all(struct keeper *k)
{
	if (k->link >= 0)
		close(k->link);
	if (k->listener >= 0)
		close(k->listener);
	await_all(k);
	for (size_t i = 0; k->pidfds && i < k->options->pid_count; i++)
		cleanup_close(&k->pidfds[i]);
	free(k->pidfds);
	for (size_t i = 0; i < ARRAY_SIZE(k->hours); i++)
		if (k->hours[i].pid)
			close(k->hours[i].store);
}

static uint64_t memory_of_each(void)
{
	uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / 2;

	return all / MEMORY_SHARES > LEAST_MEMORY ? all / MEMORY_SHARES : LEAST_MEMORY;
}

struct error *serve_run(const struct serve_options *o, bool *ret_ended)
{
	struct keeper *k = calloc(1, sizeof(*k));
	struct error *err;

	if (!k)
		return &error_no_memory;
	*k = (struct keeper){.options = o,
			     .limits = {.exe = o->exe,
					.budget = o->budget,
					.memory = memory_of_each(),
					.traces = o->traces,
					.pids = o->pids,
					.pid_count = o->pid_count,
					.children = o->children},
			     .listener = -1,
			     .link = -1};
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	err = open_pidfds(k);
	if (!err)
		err = open_listener(k);
	if (!err)
		err = start_front(k);
	if (!err)
		err = serve(k, ret_ended);
	end_all(k);
	free(k);
	return err;
}
