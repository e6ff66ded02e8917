#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <linux/capability.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/printable.h"
#include "cli/cli.h"
#include "cli/ps_row.h"
#include "target/access.h"

/* How many processes are looked at side by side. */
#define WORKERS 8
/* A process may take so long; less, once all together have taken so long. */
#define PATIENCE_NS 5000000000ull
#define ALL_PATIENCE_NS 20000000000ull
#define LATE_PATIENCE_NS 500000000ull

static const struct argp argp = {NULL,
				 NULL,
				 "",
				 "Lists the Go processes of this machine: pid, Go version, build, "
				 "goroutines, threads, command. It finds them by their executable, "
				 "not by their name.\v"
				 "Examples:\n"
				 "  gospect ps\n"
				 "  sudo gospect ps",
				 NULL,
				 NULL,
				 NULL};

struct list {
	struct ps_row *rows; /* by pid */
	size_t count;
	size_t started;
	size_t printed; /* rows that were looked at and printed, or passed over */
	bool *done;
	size_t shown, denied;
	uint64_t began_ns;
	struct ps_worker workers[WORKERS];
};

/* ---- printing ---- */

static void print_row(struct list *l, const struct ps_row *row)
{
	char goroutines[24] = "-", threads[24] = "-";

	l->denied += row->kind == PS_DENIED;
	if (row->kind != PS_GO)
		return;
	if (!l->shown++)
		printf("%7s  %-12s %-22s %10s %7s  %s\n", "PID", "GO", "BUILD", "GOROUTINES",
		       "THREADS", "COMMAND");
	if (row->goroutines >= 0)
		snprintf(goroutines, sizeof(goroutines), "%ld", row->goroutines);
	if (row->threads)
		snprintf(threads, sizeof(threads), "%lu", row->threads);
	printable_line(stdout, "%7d  %-12s %-22s %10s %7s  %s", row->pid,
		       *row->version ? row->version : "-", row->build, goroutines, threads,
		       row->command);
	if (*row->reason)
		printable_line(stdout, "%7s  %s", "", row->reason);
}

/* In order of their pids, as soon as all before them are known. */
static void print_done(struct list *l)
{
	while (l->printed < l->count && l->done[l->printed])
		print_row(l, &l->rows[l->printed++]);
	fflush(stdout);
}

/* ---- looking ---- */

static int compare_rows(const void *a, const void *b)
{
	return ((const struct ps_row *)a)->pid - ((const struct ps_row *)b)->pid;
}

/* A thread of the kernel has no program. */
static bool has_program(pid_t pid)
{
	char path[32], byte;

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	return readlink(path, &byte, 1) >= 0 || errno == EACCES || errno == EPERM;
}

static struct error *must_check add_row(struct list *l, size_t *capacity, pid_t pid)
{
	if (pid <= 0 || pid == getpid() || !has_program(pid))
		return NULL;
	if (!array_reserve(&l->rows, capacity, l->count + 1))
		return &error_no_memory;
	l->rows[l->count++] = (struct ps_row){.pid = pid};
	return NULL;
}

static struct error *must_check list_processes(struct list *l)
{
	size_t capacity = 0;
	DIR *proc = opendir("/proc");
	struct error *err = NULL;
	struct dirent *entry;

	if (!proc)
		return error_format(ERROR_FAILED, "cannot read /proc; is it mounted?");
	while (!err && (entry = readdir(proc)))
		if (isdigit((unsigned char)entry->d_name[0]))
			err = add_row(l, &capacity, atoi(entry->d_name));
	closedir(proc);
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
			err = ps_worker_start(&l->workers[i], &l->rows[l->started++],
					      now + (late ? LATE_PATIENCE_NS : PATIENCE_NS));
	}
	return err;
}

/* Until one has something to say, or is late. False: none is at work. */
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
	poll(fds, WORKERS, next > now ? (next - now) / 1000000 + 1 : 0);
	now = clock_now();
	for (size_t i = 0; i < WORKERS; i++) {
		struct ps_worker *w = &l->workers[i];

		if (w->worker.pipe < 0 || (!fds[i].revents && now < w->worker.deadline_ns))
			continue;
		ps_worker_finish(w);
		l->done[w->row - l->rows] = true;
	}
	return true;
}

static struct error *must_check look_at_all(struct list *l)
{
	struct error *err;

	do {
		err = start_workers(l);
		print_done(l);
	} while (wait_for_one(l) || (!err && l->started < l->count));
	print_done(l);
	return err;
}

static void say_denied(size_t count)
{
	struct access_self self;
	bool able;

	access_self_read(&self);
	able = self.capabilities >> CAP_SYS_PTRACE & 1;
	say("cannot read %zu more process%s%s%s", count, count == 1 ? "" : "es",
	    able ? "" : "; run gospect ", able ? "" : access_remedy(&self, CAP_SYS_PTRACE));
}

static struct error *run(int argc, char **argv, int *ret)
{
	struct list l = {.began_ns = clock_now()};
	struct error *err;
	bool help;

	err = parse_options(&argp, "ps", argc, argv, NULL, &help);
	if (err || help)
		return err;
	for (size_t i = 0; i < WORKERS; i++)
		l.workers[i].worker.pipe = -1;
	err = list_processes(&l);
	if (!err)
		err = look_at_all(&l);
	free(l.rows);
	free(l.done);
	if (err)
		return err;
	if (ferror(stdout) || fflush(stdout))
		return error_errno(ERROR_FAILED, errno, "cannot write to standard output");
	if (l.denied)
		say_denied(l.denied);
	else if (!l.shown)
		say("no Go process found");
	return NULL;
}

const struct verb verb_ps = {"ps", "the Go processes of this machine", run};
