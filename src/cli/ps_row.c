#include "cli/ps_row.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/strbuf.h"
#include "cli/confine.h"
#include "cli/program.h"
#include "golayout/golayout.h"
#include "image/image.h"
#include "target/target.h"

/* More than any program takes that is what it says. */
#define MEMORY (512ull << 20)
#define CPU_SECONDS 5

/* ---- in the worker ---- */

/* The command line, with spaces for the NULs. */
static void read_command(pid_t pid, char *ret, size_t size)
{
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	fd = door_open(path, 0);
	n = fd < 0 ? 0 : read(fd, ret, size - 1);
	if (fd >= 0)
		close(fd);
	n = n < 0 ? 0 : n;
	while (n > 0 && !ret[n - 1])
		n--;
	ret[n] = '\0';
	for (ssize_t i = 0; i < n; i++)
		if (!ret[i])
			ret[i] = ' ';
}

static void describe(const struct image *img, struct ps_row *row)
{
	_cleanup_strbuf_ struct strbuf build = STRBUF_INIT;
	const char *version = *img->info.version ? img->info.version : "unknown";

	program_describe_build(img, &build);
	snprintf(row->version, sizeof(row->version), "%s", version);
	snprintf(row->build, sizeof(row->build), "%s", build.data);
}

static struct error *must_check look_inside(struct target *t, struct image *img, struct ps_row *row)
{
	_cleanup_golayout_ struct golayout *lay = NULL;
	_cleanup_free_ struct target_thread *threads = NULL;
	size_t count = 0;
	long goroutines;
	bool starting;
	struct error *err = target_threads(t, &threads, &count);

	row->threads = count;
	if (!err)
		err = golayout_open(img, t, &lay);
	if (!err)
		err = golayout_validate(lay, img, t, &starting);
	if (!err)
		err = program_count_goroutines(t, img, lay, &goroutines);
	if (!err)
		row->goroutines = goroutines;
	return err;
}

/* Whether its program is Go's, as far as the file alone tells, for a process that we may not read.
 */
static bool is_go_file(struct ps_row *row)
{
	_cleanup_image_ struct image *img = NULL;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/exe", row->pid);
	if (error_dropped(image_open_file(path, &img)))
		return false;
	describe(img, row);
	return true;
}

static void explain(struct ps_row *row, struct error *err)
{
	if (err)
		snprintf(row->reason, sizeof(row->reason), "%s", err->message);
	error_destroy(err);
}

static void look_at(struct ps_row *row)
{
	_cleanup_target_ struct target *t = NULL;
	_cleanup_image_ struct image *img = NULL;
	struct error *err = target_open_process(row->pid, &t);
	bool denied = err && err->code == ERROR_DENIED;

	read_command(row->pid, row->command, sizeof(row->command));
	if (denied && is_go_file(row)) {
		row->kind = PS_GO;
		explain(row, err);
		return;
	}
	if (!err)
		err = image_open(t, NULL, &img);
	if (err) {
		row->kind = err->code == ERROR_DENIED ? PS_DENIED : PS_OTHER;
		error_destroy(err);
		return;
	}
	describe(img, row);
	err = image_check(img, look_inside(t, img, row));
	row->kind = err && err->code == ERROR_GONE ? PS_OTHER : PS_GO;
	explain(row, err);
}

static _Noreturn void work(struct ps_row *row, int to)
{
	struct error *err;

	setpgid(0, 0);
	err = confine_worker(row->pid, MEMORY, CPU_SECONDS);
	if (err) {
		row->kind = PS_GO;
		explain(row, err);
	} else {
		look_at(row);
	}
	_exit(write(to, row, sizeof(*row)) == sizeof(*row) ? 0 : 1);
}

/* ---- in gospect ---- */

struct error *ps_worker_start(struct ps_worker *w, struct ps_row *row, uint64_t deadline_ns)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return error_errno(ERROR_FAILED, errno, "cannot make a pipe");
	row->goroutines = -1;
	w->pid = fork();
	if (!w->pid)
		work(row, ends[1]);
	close(ends[1]);
	if (w->pid < 0) {
		close(ends[0]);
		return error_errno(ERROR_FAILED, errno, "cannot start a process");
	}
	setpgid(w->pid, w->pid); /* it does so, too: whoever comes first */
	w->pipe = ends[0];
	w->row = row;
	w->deadline_ns = deadline_ns;
	return NULL;
}

/* The row is of one write, which a pipe does not cut. */
_Static_assert(sizeof(struct ps_row) <= 4096, "PIPE_BUF");

static bool read_row(const struct ps_worker *w)
{
	pid_t pid = w->row->pid;
	struct ps_row *row = w->row, got;

	if (clock_now() >= w->deadline_ns || read(w->pipe, &got, sizeof(got)) != sizeof(got))
		return false;
	*row = got;
	row->pid = pid;
	row->version[sizeof(row->version) - 1] = '\0';
	row->build[sizeof(row->build) - 1] = '\0';
	row->command[sizeof(row->command) - 1] = '\0';
	row->reason[sizeof(row->reason) - 1] = '\0';
	return true;
}

/* It was given a program or memory that no Go program has. */
static void blame(struct ps_row *row, bool late, int status)
{
	row->kind = PS_GO;
	read_command(row->pid, row->command, sizeof(row->command));
	if (late)
		snprintf(row->reason, sizeof(row->reason),
			 "it takes too long to read: its program is damaged, or made to be slow");
	else if (WIFSIGNALED(status))
		snprintf(row->reason, sizeof(row->reason),
			 "reading it failed (%s): its program or its memory is damaged, or made to "
			 "harm",
			 strsignal(WTERMSIG(status)));
	else
		snprintf(row->reason, sizeof(row->reason), "reading it failed");
}

void ps_worker_finish(struct ps_worker *w)
{
	bool late = clock_now() >= w->deadline_ns, have = read_row(w);
	int status = 0;

	if (late)
		kill(-w->pid, SIGKILL);
	/* A thread that the kernel does not let go of is left behind. */
	while (waitpid(w->pid, &status, late ? WNOHANG : 0) < 0 && errno == EINTR)
		;
	if (!have)
		blame(w->row, late, status);
	close(w->pipe);
	w->pipe = -1;
}
