#include "push/push_targets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cgroup.h"
#include "base/cleanup.h"
#include "lib/process_name.h"
#include "target/proc_status.h"

/* Of processes that started each other. */
#define MOST_GENERATIONS 64

void push_targets_init(struct push_targets *t)
{
	struct stat st;

	*t = (struct push_targets){0};
	if (!stat("/proc/self/exe", &st)) {
		t->device = st.st_dev;
		t->inode = st.st_ino;
	}
}

static void target_release(struct push_target *t)
{
	push_worker_end(&t->worker);
	strbuf_release(&t->in);
	strbuf_release(&t->body);
}

void push_targets_release(struct push_targets *t)
{
	for (size_t i = 0; i < t->count; i++)
		target_release(&t->items[i]);
	free(t->items);
	*t = (struct push_targets){0};
}

static bool is_pid(const struct push_wanted *w, pid_t pid)
{
	for (const pid_t *p = w->pids; p && *p; p++)
		if (*p == pid)
			return true;
	return false;
}

static bool is_named(const struct push_wanted *w, const struct process_name *name)
{
	for (const char *const *n = w->names; n && *n; n++)
		if (process_name_is(name, *n))
			return true;
	return false;
}

static bool is_wanted(const struct push_wanted *w, pid_t pid, const struct process_name *name)
{
	char file[32], container[CGROUP_CONTAINER_SIZE];

	if (w->host || is_pid(w, pid) || is_named(w, name))
		return true;
	snprintf(file, sizeof(file), "/proc/%d/cgroup", pid);
	return w->container && cgroup_container(file, w->container, container);
}

static struct push_target *find(const struct push_targets *t, pid_t pid)
{
	for (size_t i = 0; i < t->count; i++)
		if (t->items[i].pid == pid)
			return &t->items[i];
	return NULL;
}

/* Whether it was started by one that is wanted, or by one that is pushed already: the children of a
 * process that has ended are another one's. */
static bool descends(const struct push_targets *t, const struct push_wanted *w, pid_t pid)
{
	struct process_name name;

	if (!w->children)
		return false;
	/* Pids are used again: what is read here is of several moments. */
	for (int i = 0; i < MOST_GENERATIONS && (pid = process_parent(pid)) > 1; i++)
		if (find(t, pid) || (process_name_read(pid, &name) && is_wanted(w, pid, &name)))
			return true;
	return false;
}

/* A process without a program is a thread of the kernel, or has ended. */
static bool program_of(const struct push_targets *t, pid_t pid, struct push_target *ret)
{
	char path[PROCESS_EXE_PATH];
	struct stat st;

	process_exe_path(pid, path);
	if (stat(path, &st)) {
		/* Another user's, perhaps: opening it says why it may not be read. */
		ret->device = ret->inode = 0;
		return !target_is_kernel_thread(pid) && !process_is_dead(pid);
	}
	ret->device = st.st_dev;
	ret->inode = st.st_ino;
	return t->device != ret->device || t->inode != ret->inode;
}

static struct error *must_check look_at(struct push_targets *t, const struct push_wanted *w,
					pid_t pid)
{
	struct push_target now = {.pid = pid, .start = process_start(pid), .worker.pipe = -1};
	struct push_target *known = find(t, pid);
	struct process_name name;

	if (pid == getpid() || !now.start || !program_of(t, pid, &now))
		return NULL;
	if (known && known->start == now.start && known->device == now.device &&
	    known->inode == now.inode) {
		known->is_seen = true;
		return NULL;
	}
	/* Its worker notices the end of the program that it reads. */
	if (known && known->worker.pid)
		return NULL;
	if (!process_name_read(pid, &name) || (!is_wanted(w, pid, &name) && !descends(t, w, pid)))
		return NULL;
	if (!known && !array_reserve(&t->items, &t->capacity, t->count + 1))
		return &error_no_memory;
	now.is_seen = true;
	now.in = now.body = (struct strbuf)STRBUF_INIT;
	snprintf(now.name, sizeof(now.name), "%.*s", (int)sizeof(now.name) - 1,
		 *name.program ? name.program : name.comm);
	if (known)
		target_release(known);
	*(known ? known : &t->items[t->count++]) = now;
	return NULL;
}

static void remove_gone(struct push_targets *t)
{
	size_t n = 0;

	for (size_t i = 0; i < t->count; i++) {
		if (t->items[i].is_seen || t->items[i].worker.pid)
			t->items[n++] = t->items[i];
		else
			target_release(&t->items[i]);
	}
	t->count = n;
}

/* Without these no process can come later. */
static bool are_ids(const struct push_wanted *w)
{
	return !w->host && !w->container && !(w->names && *w->names);
}

/* No other process need be looked at. */
static bool are_only_ids(const struct push_wanted *w)
{
	return are_ids(w) && !w->children;
}

static struct error *must_check look_at_all(struct push_targets *t, const struct push_wanted *w)
{
	_cleanup_closedir_ DIR *folder = process_folder_open();
	struct error *err = NULL;
	pid_t pid;

	if (!folder)
		return error_format(ERROR_FAILED, "cannot read /proc; is it mounted?");
	while (!err && (pid = process_folder_next(folder)))
		err = look_at(t, w, pid);
	return err;
}

struct error *push_targets_scan(struct push_targets *t, const struct push_wanted *wanted)
{
	struct error *err = NULL;

	for (size_t i = 0; i < t->count; i++)
		t->items[i].is_seen = false;
	if (!are_only_ids(wanted))
		err = look_at_all(t, wanted);
	for (const pid_t *p = wanted->pids; are_only_ids(wanted) && !err && *p; p++)
		err = look_at(t, wanted, *p);
	remove_gone(t);
	return err;
}

bool push_targets_are_gone(const struct push_targets *t, const struct push_wanted *wanted)
{
	if (!are_ids(wanted))
		return false;
	for (size_t i = 0; i < t->count; i++)
		if (t->items[i].state != PUSH_LEFT_OUT || t->items[i].worker.pid ||
		    !t->items[i].start)
			return false;
	return true;
}
