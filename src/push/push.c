#include "push/push.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "push/delivery.h"

#define SECOND_NS 1000000000ull
/* How often processes are looked for. */
#define SCAN_NS (5 * SECOND_NS)
/* How many programs are opened at once: it takes memory and CPU time. */
#define MOST_OPENING 8
/* A worker that says nothing for so many intervals is stuck. */
#define PATIENCE_INTERVALS 12
#define PATIENCE_NS (60 * SECOND_NS)
/* At the end: how long workers and then the sender may take. */
#define END_NS (10 * SECOND_NS)
#define FLUSH_NS (5 * SECOND_NS)
/* Of a worker. */
#define MOST_MEMORY (512ull << 20)
/* Different remarks that are said. */
#define MOST_REMARKS 64

struct push {
	const struct push_options *o;
	struct push_targets targets;
	struct spool spool;
	struct delivery delivery;
	struct push_share *share;
	int share_file;
	struct push_summary summary;
	uint64_t began_ns, scan_ns;
	uint64_t stopped_ns; /* 0: it goes on */
	uint64_t flush_ns;   /* when all workers had ended */
	char *remarks[MOST_REMARKS];
	size_t remark_count;
	struct pollfd *fds; /* the sender, then the targets' workers */
	size_t fd_capacity;
};

static void push_release(struct push *p)
{
	push_targets_release(&p->targets);
	delivery_end(&p->delivery);
	spool_close(&p->spool);
	if (p->share)
		munmap(p->share, sizeof(*p->share));
	if (p->share_file >= 0)
		close(p->share_file);
	for (size_t i = 0; i < p->remark_count; i++)
		free(p->remarks[i]);
	free(p->fds);
}

/* Each different text once. */
static void say_once(struct push *p, const struct push_target *t, const char *text, int length)
{
	char line[1024];
	char *copy = strndup(text, length);

	for (size_t i = 0; copy && i < p->remark_count; i++) {
		if (!strcmp(p->remarks[i], copy)) {
			free(copy);
			return;
		}
	}
	if (!copy || p->remark_count == MOST_REMARKS) {
		free(copy);
		return;
	}
	p->remarks[p->remark_count++] = copy;
	snprintf(line, sizeof(line), "process %d (%s): %s", t->pid, t->name, copy);
	p->o->say(p->o->arg, line);
}

/* ---- what workers share ---- */

/* Sealed: no worker can write to it. */
static struct error *must_check create_share(struct push *p)
{
	p->share_file = memfd_create("gospect-share", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (p->share_file < 0 || ftruncate(p->share_file, sizeof(*p->share)))
		return error_errno(ERROR_FAILED, errno, "cannot create shared memory");
	p->share =
		mmap(NULL, sizeof(*p->share), PROT_READ | PROT_WRITE, MAP_SHARED, p->share_file, 0);
	if (p->share == MAP_FAILED) {
		p->share = NULL;
		return &error_no_memory;
	}
	madvise(p->share, sizeof(*p->share), MADV_DONTFORK);
	/* Linux before 5.1 lacks it. */
	fcntl(p->share_file, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK);
	return NULL;
}

static void count_processes(struct push *p)
{
	uint32_t count = 0;

	/* On a host most of those that are not open yet are no Go programs. */
	for (size_t i = 0; i < p->targets.count; i++) {
		enum push_state state = p->targets.items[i].state;

		count += state == PUSH_RECORDED || (state != PUSH_LEFT_OUT && !p->o->wanted.host);
	}
	p->share->processes = count ? count : 1;
}

/* ---- workers ---- */

static void start_worker(struct push *p, struct push_target *t)
{
	const struct push_job job = {
		.target = t->pid,
		.program = t->name,
		.destination = p->o->destination,
		.interval = p->o->interval,
		.budget = p->o->budget,
		.share = p->share_file,
		.memory = MOST_MEMORY,
		.labels = p->o->labels,
		.no_names = p->o->no_names,
		.cancel = p->o->cancel,
	};
	struct error *err = push_worker_start(&job, &t->worker);

	t->state = err ? PUSH_LEFT_OUT : PUSH_OPENING;
	t->heard_ns = clock_now();
	if (err)
		say_once(p, t, err->message, INT32_MAX);
	error_destroy(err);
}

static void start_workers(struct push *p)
{
	size_t opening = 0;

	for (size_t i = 0; i < p->targets.count; i++)
		opening += p->targets.items[i].state == PUSH_OPENING;
	for (size_t i = 0; i < p->targets.count && opening < MOST_OPENING; i++) {
		if (p->targets.items[i].state != PUSH_FOUND)
			continue;
		start_worker(p, &p->targets.items[i]);
		opening++;
	}
}

static void end_worker(struct push *p, struct push_target *t, enum push_state state)
{
	push_worker_end(&t->worker);
	strbuf_release(&t->in);
	strbuf_release(&t->body);
	t->in = t->body = (struct strbuf)STRBUF_INIT;
	t->state = state;
	count_processes(p);
}

static void take_error(struct push *p, struct push_target *t, const char *bytes, size_t size)
{
	uint32_t code;

	if (size <= sizeof(code))
		return;
	memcpy(&code, bytes, sizeof(code));
	/* Most processes of a host are no Go programs, as some that others start; and some end
	 * meanwhile. */
	if ((code == ERROR_NOT_GO || code == ERROR_GONE) &&
	    (p->o->wanted.host || p->o->wanted.children))
		return;
	say_once(p, t, bytes + sizeof(code), size - sizeof(code));
}

static void take_body(struct push *p, struct push_target *t)
{
	p->summary.requests++;
	spool_add(&p->spool, t->body.data, t->body.length);
	strbuf_reset(&t->body);
}

/* False: it sends nonsense, or has said that it ends. */
static bool take_frame(struct push *p, struct push_target *t, const struct push_frame_head *head,
		       const char *bytes)
{
	switch (head->kind) {
	case PUSH_FRAME_BEGUN:
		p->summary.processes += t->state != PUSH_RECORDED;
		t->state = PUSH_RECORDED;
		count_processes(p);
		return true;
	case PUSH_FRAME_REMARK:
		say_once(p, t, bytes, head->size);
		return true;
	case PUSH_FRAME_BODY:
		strbuf_add(&t->body, bytes, head->size);
		return t->body.length <= PUSH_MOST_BODY && !t->body.failed;
	case PUSH_FRAME_END:
		take_body(p, t);
		return true;
	case PUSH_FRAME_ERROR:
		take_error(p, t, bytes, head->size);
		return false;
	}
	return false;
}

/* False: as above. */
static bool take_frames(struct push *p, struct push_target *t)
{
	struct push_frame_head head;
	bool good = true;
	size_t at = 0;

	while (good && t->in.length - at >= sizeof(head)) {
		memcpy(&head, t->in.data + at, sizeof(head));
		good = head.size <= PUSH_MOST_FRAME;
		if (!good || t->in.length - at - sizeof(head) < head.size)
			break;
		at += sizeof(head);
		good = take_frame(p, t, &head, t->in.data + at);
		at += head.size;
	}
	memmove(t->in.data, t->in.data + at, t->in.length - at);
	t->in.length -= at;
	return good;
}

static void take_from_worker(struct push *p, struct push_target *t)
{
	char *to = strbuf_reserve(&t->in, PUSH_MOST_FRAME);
	ssize_t n = to ? read(t->worker.pipe, to, PUSH_MOST_FRAME) : 0;
	bool recorded = t->state == PUSH_RECORDED;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	t->in.length += n > 0 ? n : 0;
	t->heard_ns = clock_now();
	if (n > 0 && take_frames(p, t))
		return;
	recorded |= t->state == PUSH_RECORDED;
	end_worker(p, t, PUSH_LEFT_OUT);
	if (!recorded)
		return;
	/* It has ended, or is another program now, or its worker was killed. */
	t->start = 0;
	p->scan_ns = clock_now() + SECOND_NS;
}

static void end_stuck_workers(struct push *p)
{
	uint64_t now = clock_now();
	uint64_t patience = p->o->interval * PATIENCE_INTERVALS * 1e9 + PATIENCE_NS;

	for (size_t i = 0; i < p->targets.count; i++) {
		struct push_target *t = &p->targets.items[i];

		if (!t->worker.pid || now - t->heard_ns < patience)
			continue;
		say_once(p, t,
			 "reading it takes too long: its program or memory is corrupt or hostile",
			 INT32_MAX);
		end_worker(p, t, PUSH_LEFT_OUT);
	}
}

/* ---- the loop ---- */

static bool is_cancelled(const struct push *p)
{
	return p->o->cancel && gospect_cancel_is_requested(p->o->cancel);
}

static size_t workers(const struct push *p)
{
	size_t count = 0;

	for (size_t i = 0; i < p->targets.count; i++)
		count += p->targets.items[i].worker.pid > 0;
	return count;
}

static void stop(struct push *p)
{
	p->stopped_ns = clock_now();
	for (size_t i = 0; i < p->targets.count; i++)
		if (p->targets.items[i].worker.pid > 0)
			kill(p->targets.items[i].worker.pid, SIGTERM);
}

static void stop_if_due(struct push *p)
{
	uint64_t now = clock_now();
	bool over = p->o->duration > 0 && now - p->began_ns >= p->o->duration * 1e9;

	if (!p->stopped_ns &&
	    (over || is_cancelled(p) || push_targets_are_gone(&p->targets, &p->o->wanted)))
		stop(p);
	if (!p->stopped_ns || p->flush_ns)
		return;
	now = clock_now();
	if (now - p->stopped_ns > END_NS)
		for (size_t i = 0; i < p->targets.count; i++)
			end_worker(p, &p->targets.items[i], PUSH_LEFT_OUT);
	if (!workers(p))
		p->flush_ns = now;
}

/* What is left stays in the spool for the next gospect. */
static bool is_over(const struct push *p)
{
	return p->flush_ns && (!spool_count(&p->spool) || delivery_fails(&p->delivery) ||
			       clock_now() - p->flush_ns > FLUSH_NS);
}

static struct error *must_check wait_for_all(struct push *p)
{
	uint64_t now = clock_now(), due = delivery_due(&p->delivery);
	size_t count = p->targets.count;
	int ms;

	if (!array_reserve(&p->fds, &p->fd_capacity, count + 1))
		return &error_no_memory;
	p->fds[0] = (struct pollfd){.fd = p->delivery.sender.socket, .events = POLLIN};
	for (size_t i = 0; i < count; i++)
		p->fds[i + 1] =
			(struct pollfd){.fd = p->targets.items[i].worker.pipe, .events = POLLIN};
	due = p->scan_ns < due ? p->scan_ns : due;
	if (p->o->duration > 0 && p->began_ns + p->o->duration * 1e9 < due)
		due = p->began_ns + p->o->duration * 1e9;
	ms = due > now ? (due - now) / 1000000 + 1 : 0;
	if (p->stopped_ns && ms > 200)
		ms = 200;
	if (poll(p->fds, count + 1, ms) <= 0)
		return NULL;
	for (size_t i = 0; i < count; i++)
		if (p->fds[i + 1].revents)
			take_from_worker(p, &p->targets.items[i]);
	if (p->fds[0].revents)
		delivery_take(&p->delivery);
	return NULL;
}

static struct error *must_check scan_if_due(struct push *p)
{
	struct error *err;

	if (p->stopped_ns || clock_now() < p->scan_ns)
		return NULL;
	err = push_targets_scan(&p->targets, &p->o->wanted);
	count_processes(p);
	p->scan_ns = clock_now() + SCAN_NS;
	end_stuck_workers(p);
	delivery_say_losses(&p->delivery, false);
	return err;
}

static struct error *must_check loop(struct push *p)
{
	struct error *err = NULL;

	while (!err && !is_over(p)) {
		err = scan_if_due(p);
		if (!p->stopped_ns)
			start_workers(p);
		stop_if_due(p);
		delivery_go_on(&p->delivery);
		if (!err)
			err = wait_for_all(p);
	}
	return err;
}

/* ---- all ---- */

static double cpu_seconds(int who)
{
	struct rusage usage;

	getrusage(who, &usage);
	return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec +
	       (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void summarize(struct push *p, struct push_summary *ret)
{
	double seconds = (clock_now() - p->began_ns) / 1e9;

	delivery_say_losses(&p->delivery, true);
	delivery_end(&p->delivery);
	p->summary.sent = p->delivery.sent;
	p->summary.refused = p->delivery.refused;
	p->summary.dropped = p->spool.dropped;
	p->summary.waiting = spool_count(&p->spool);
	p->summary.seconds = seconds;
	p->summary.cpu_percent =
		100 * (cpu_seconds(RUSAGE_SELF) + cpu_seconds(RUSAGE_CHILDREN)) / seconds;
	*ret = p->summary;
}

struct error *push_run(const struct push_options *o, struct push_summary *ret)
{
	_cleanup_(push_release) struct push p = {
		.o = o,
		.share_file = -1,
		.spool.folder = -1,
		.delivery.sender.socket = -1,
		.began_ns = clock_now(),
	};
	struct error *err;

	push_targets_init(&p.targets);
	err = spool_open(o->spool, o->destination->name, o->spool_bytes, &p.spool);
	if (!err)
		err = delivery_start(o, &p.spool, &p.delivery);
	if (!err)
		err = create_share(&p);
	if (!err)
		err = loop(&p);
	if (!err)
		summarize(&p, ret);
	return err;
}
