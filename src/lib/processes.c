/* The list of Go processes: eight workers at a time (lib/worker.h), and their rows in order. */
#include <errno.h>
#include <gospect/processes.h>
#include <linux/capability.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "lib/cancel_api.h"
#include "lib/descendants.h"
#include "lib/error_api.h"
#include "lib/options.h"
#include "lib/process_name.h"
#include "lib/process_row.h"
#include "lib/remark.h"
#include "target/access.h"
#include "target/ops.h"
#include "target/proc_status.h"

/* How many processes are read at once. */
#define WORKERS 8
/* The time limit of a process; a shorter one after all together have taken ALL_PATIENCE_NS. */
#define PATIENCE_NS 5000000000ull
#define ALL_PATIENCE_NS 20000000000ull
#define LATE_PATIENCE_NS 500000000ull
/* How soon a cancelled call ends. */
#define CANCEL_NS 50000000ull

struct list {
	struct process_row *rows; /* by pid */
	size_t count;
	size_t started;
	size_t given; /* rows that were handed over or skipped */
	bool *done;
	size_t denied;
	uint64_t began_ns;
	struct process_worker workers[WORKERS];
	int (*process)(void *arg, const struct gospect_go_process *process);
	void *arg;
	bool ended;                   /* process() wants no more */
	const char *name, *container; /* that are wanted; NULL: any */
	const int32_t *pids;          /* likewise */
	size_t pid_count;
	const int32_t *ancestors; /* likewise; NULL: any */
	struct descendants descendants;
	uint32_t flags;
	bool told; /* a remark said that workers are not confined */
	const struct gospect_cancel *cancel;
	struct remark remark;
};

static void cleanup_list(struct list *l)
{
	for (size_t i = 0; i < WORKERS; i++)
		if (l->workers[i].worker.pipe >= 0)
			worker_end(&l->workers[i].worker);
	descendants_release(&l->descendants);
	free(l->rows);
	free(l->done);
}
#define _cleanup_list_ _cleanup_(cleanup_list)

/* ---- handing over ---- */

static void give_row(struct list *l, const struct process_row *row)
{
	const struct gospect_go_process given = {
		.pid = row->pid,
		.is_denied = row->kind == PROCESS_DENIED,
		.goroutines = row->goroutines,
		.threads = row->threads,
		.go_version = row->version,
		.build = row->build,
		.command = row->command,
		.problem = row->reason,
		.name = row->name,
		.container = row->container,
		.start = row->start,
	};

	l->denied += row->kind == PROCESS_DENIED;
	if (row->kind == PROCESS_GO || l->flags & GOSPECT_PROCESSES_UNREAD ||
	    (row->kind == PROCESS_DENIED && l->flags & GOSPECT_PROCESSES_DENIED))
		l->ended = l->process(l->arg, &given);
}

/* Hands rows over in order of their pids, each when all before it are known. */
static void give_done(struct list *l)
{
	while (!l->ended && l->given < l->count && l->done[l->given])
		give_row(l, &l->rows[l->given++]);
}

/* ---- looking ---- */

static int compare_rows(const void *a, const void *b)
{
	return ((const struct process_row *)a)->pid - ((const struct process_row *)b)->pid;
}

static bool container_is(pid_t pid, const char *begin, char ret[CGROUP_CONTAINER_SIZE])
{
	char file[32];

	*ret = '\0';
	snprintf(file, sizeof(file), "/proc/%d/cgroup", pid);
	return cgroup_container(file, begin, ret) || !begin;
}

static bool is_wanted(const struct list *l, pid_t pid)
{
	if (l->ancestors && !descendants_have(&l->descendants, pid))
		return false;
	for (size_t i = 0; i < l->pid_count; i++)
		if (l->pids[i] == pid)
			return true;
	return !l->pids;
}

static struct error *must_check add_row(struct list *l, size_t *capacity, pid_t pid)
{
	char container[CGROUP_CONTAINER_SIZE];
	struct process_name name;
	struct process_row *row;

	if (pid <= 0 || pid == getpid() || !is_wanted(l, pid) || !process_name_read(pid, &name))
		return NULL;
	if (l->name && !process_name_is(&name, l->name))
		return NULL;
	if (!container_is(pid, l->container, container))
		return NULL;
	if (!array_reserve(&l->rows, capacity, l->count + 1))
		return &error_no_memory;
	row = &l->rows[l->count++];
	*row = (struct process_row){.pid = pid, .start = process_start(pid)};
	snprintf(row->name, sizeof(row->name), "%.*s", (int)sizeof(row->name) - 1,
		 *name.program ? name.program : name.comm);
	memcpy(row->container, container, sizeof(container));
	return NULL;
}

static struct error *must_check list_processes(struct list *l)
{
	size_t capacity = 0;
	_cleanup_closedir_ DIR *folder = process_folder_open();
	struct error *err = NULL;
	pid_t pid;

	if (!folder)
		return error_format(ERROR_FAILED, "cannot read /proc; is it mounted?");
	while (!err && (pid = process_folder_next(folder)))
		err = add_row(l, &capacity, pid);
	if (err)
		return err;
	if (l->count)
		qsort(l->rows, l->count, sizeof(l->rows[0]), compare_rows);
	l->done = calloc(l->count + 1, sizeof(l->done[0]));
	return l->done ? NULL : &error_no_memory;
}

static struct error *must_check start_workers(struct list *l)
{
	struct error *err = NULL;

	for (size_t i = 0; !err && i < WORKERS && l->started < l->count; i++) {
		uint64_t now = clock_now();
		bool late = now - l->began_ns > ALL_PATIENCE_NS;

		if (l->workers[i].worker.pipe < 0)
			err = process_worker_start(&l->workers[i], &l->rows[l->started++],
						   now + (late ? LATE_PATIENCE_NS : PATIENCE_NS));
	}
	return err;
}

static void finish(struct list *l, struct process_worker *w)
{
	process_worker_finish(w);
	l->done[w->row - l->rows] = true;
	if (*w->worker.remark && !l->told)
		remark(&l->remark, "%s", w->worker.remark);
	l->told |= *w->worker.remark;
}

/* Waits until a worker has a result, or is late. False: none is at work. */
static bool wait_for_one(struct list *l)
{
	struct pollfd fds[WORKERS];
	uint64_t now = clock_now(), next = UINT64_MAX;

	for (size_t i = 0; i < WORKERS; i++) {
		fds[i] = (struct pollfd){.fd = l->workers[i].worker.pipe, .events = POLLIN};
		if (fds[i].fd >= 0 && l->workers[i].worker.deadline_ns < next)
			next = l->workers[i].worker.deadline_ns;
	}
	if (next == UINT64_MAX)
		return false;
	if (l->cancel && next > now + CANCEL_NS)
		next = now + CANCEL_NS;
	poll(fds, WORKERS, next > now ? (next - now) / 1000000 + 1 : 0);
	now = clock_now();
	for (size_t i = 0; i < WORKERS; i++) {
		struct process_worker *w = &l->workers[i];

		if (w->worker.pipe < 0 || (!fds[i].revents && now < w->worker.deadline_ns))
			continue;
		finish(l, w);
	}
	return true;
}

/* Nothing of them is read. */
static void give_unread(struct list *l)
{
	for (size_t i = 0; !l->ended && i < l->count; i++) {
		l->rows[i].goroutines = -1;
		give_row(l, &l->rows[i]);
	}
}

static struct error *must_check look_at_all(struct list *l)
{
	struct error *err;

	if (l->flags & GOSPECT_PROCESSES_UNREAD) {
		give_unread(l);
		return NULL;
	}
	do {
		err = start_workers(l);
		give_done(l);
		if (l->cancel && gospect_cancel_is_requested(l->cancel)) {
			error_destroy(err);
			return &error_stopped;
		}
	} while (!l->ended && (wait_for_one(l) || (!err && l->started < l->count)));
	give_done(l);
	return err;
}

static void remark_denied(const struct list *l)
{
	struct access_self self;
	bool able;

	access_self_read(&self);
	able = self.capabilities >> CAP_SYS_PTRACE & 1;
	remark(&l->remark, "cannot read %zu other process%s: permission denied%s%s", l->denied,
	       l->denied == 1 ? "" : "es", able ? "" : "; run gospect ",
	       able ? "" : access_remedy(&self, CAP_SYS_PTRACE));
}

struct gospect_error *
gospect_processes_each(const struct gospect_processes_options *given,
		       int (*process)(void *arg, const struct gospect_go_process *process),
		       void *arg, size_t *ret_denied)
{
	_cleanup_list_ struct list l = {.began_ns = clock_now(), .process = process, .arg = arg};
	struct gospect_processes_options o = {0};
	struct error *err = options_take(given, &o, sizeof(o), "gospect_processes_options");

	l.cancel = o.cancel;
	l.name = o.name;
	l.container = o.container;
	l.pids = o.pids;
	l.pid_count = o.pid_count;
	l.ancestors = o.ancestors;
	l.flags = o.flags;
	l.remark = (struct remark){o.remark, o.arg};
	for (size_t i = 0; i < WORKERS; i++)
		l.workers[i].worker.pipe = -1;
	if (!err && o.flags & ~(uint32_t)(GOSPECT_PROCESSES_DENIED | GOSPECT_PROCESSES_UNREAD))
		err = error_format(ERROR_USAGE,
				   "invalid flags 0x%x; see enum gospect_processes_flags", o.flags);
	if (!err)
		err = target_check_proc();
	if (!err && o.ancestors)
		err = descendants_find(o.ancestors, o.ancestor_count, &l.descendants);
	if (!err)
		err = list_processes(&l);
	if (!err)
		err = look_at_all(&l);
	if (err)
		return error_out(err);
	if (l.denied && !l.ended && !(l.flags & GOSPECT_PROCESSES_DENIED))
		remark_denied(&l);
	if (ret_denied)
		*ret_denied = l.denied;
	return NULL;
}
