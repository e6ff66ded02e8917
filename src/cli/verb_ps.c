#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/strbuf.h"
#include "cli/cli.h"
#include "cli/program.h"
#include "golayout/golayout.h"
#include "image/image.h"
#include "target/access.h"
#include "target/target.h"

static const struct argp argp = {NULL,
				 NULL,
				 "",
				 "Lists the Go processes of this machine, by what their program "
				 "is, not by its name: pid, Go version, how it was built, "
				 "goroutines, threads, command.\vExample: gospect ps",
				 NULL,
				 NULL,
				 NULL};

/* What could be learned of a process. */
struct row {
	pid_t pid;
	char *version; /* NULL: not a Go program, or nobody knows */
	struct strbuf build;
	long goroutines; /* -1: not known */
	size_t threads;
	char command[160];
	struct error *why_not;
};

/* The command line, with spaces for the NULs and anything that would upset a terminal. */
static void read_command(pid_t pid, char *ret, size_t size)
{
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? 0 : read(fd, ret, size - 1);
	if (fd >= 0)
		close(fd);
	n = n < 0 ? 0 : n;
	while (n > 0 && !ret[n - 1])
		n--;
	ret[n] = '\0';
	for (ssize_t i = 0; i < n; i++)
		if (!isprint((unsigned char)ret[i]) && !(ret[i] & 0x80))
			ret[i] = ' ';
}

static struct error *look_inside(struct target *t, struct image *img, struct row *row)
{
	_cleanup_golayout_ struct golayout *lay = NULL;
	_cleanup_free_ struct target_thread *threads = NULL;
	bool starting;
	struct error *err;

	row->version = strdup(*img->info.version ? img->info.version : "unknown");
	if (!row->version)
		return &error_no_memory;
	program_describe_build(img, &row->build);
	err = target_threads(t, &threads, &row->threads);
	if (!err)
		err = golayout_open(img, t, &lay);
	if (!err)
		err = golayout_validate(lay, img, t, &starting);
	return err ? err : program_count_goroutines(t, img, lay, &row->goroutines);
}

/* Whether its program is Go's, as far as the file alone tells, for a process that we may not read.
 */
static bool is_go_file(pid_t pid, struct row *row)
{
	_cleanup_image_ struct image *img = NULL;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	if (error_dropped(image_open_file(path, &img)))
		return false;
	row->version = strdup(*img->info.version ? img->info.version : "unknown");
	program_describe_build(img, &row->build);
	return true;
}

/* False: it is not a Go process, or, with *denied counted up, there is no telling. */
static bool look_at(pid_t pid, struct row *row, size_t *denied)
{
	_cleanup_target_ struct target *t = NULL;
	_cleanup_image_ struct image *img = NULL;
	struct error *err = target_open_process(pid, &t);

	*row = (struct row){.pid = pid, .goroutines = -1, .build = STRBUF_INIT};
	read_command(pid, row->command, sizeof(row->command));
	if (err && err->code == ERROR_DENIED && is_go_file(pid, row)) {
		row->why_not = err;
		return true;
	}
	if (!err)
		err = image_open(t, NULL, &img);
	if (err) {
		*denied += err->code == ERROR_DENIED;
		error_destroy(err);
		return false;
	}
	row->why_not = image_check(img, look_inside(t, img, row));
	if (row->why_not && row->why_not->code == ERROR_GONE)
		return false;
	return true;
}

static void print_row(const struct row *row)
{
	char goroutines[24] = "-", threads[24] = "-";

	if (row->goroutines >= 0)
		snprintf(goroutines, sizeof(goroutines), "%ld", row->goroutines);
	if (row->threads)
		snprintf(threads, sizeof(threads), "%zu", row->threads);
	printf("%7d  %-12s %-22s %10s %7s  %s\n", row->pid, row->version ? row->version : "-",
	       row->build.data, goroutines, threads, row->command);
	if (row->why_not)
		printf("%7s  %s\n", "", row->why_not->message);
}

static void release_row(struct row *row)
{
	free(row->version);
	strbuf_release(&row->build);
	error_destroy(row->why_not);
}

static int compare_pids(const void *a, const void *b)
{
	return *(const pid_t *)a - *(const pid_t *)b;
}

static struct error *list_pids(pid_t **ret, size_t *ret_count)
{
	_cleanup_free_ pid_t *pids = NULL;
	size_t count = 0, capacity = 0;
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	bool failed = false;

	if (!proc)
		return error_format(ERROR_FAILED, "cannot read /proc; is it mounted?");
	while (!failed && (entry = readdir(proc))) {
		if (!isdigit((unsigned char)entry->d_name[0]) || atoi(entry->d_name) == getpid())
			continue;
		failed = !array_reserve(&pids, &capacity, count + 1);
		if (!failed)
			pids[count++] = atoi(entry->d_name);
	}
	closedir(proc);
	if (failed)
		return &error_no_memory;
	qsort(pids, count, sizeof(*pids), compare_pids);
	*ret = take_ptr(pids);
	*ret_count = count;
	return NULL;
}

static void say_denied(size_t count)
{
	struct access_self self;
	bool able;

	access_self_read(&self);
	able = self.capabilities >> CAP_SYS_PTRACE & 1;
	say("%zu more process%s could not be looked at%s%s", count, count == 1 ? "" : "es",
	    able ? "" : "; run gospect ", able ? "" : access_remedy(&self, CAP_SYS_PTRACE));
}

static struct error *run(int argc, char **argv, int *ret)
{
	_cleanup_free_ pid_t *pids = NULL;
	size_t count = 0, shown = 0, denied = 0;
	struct error *err;
	bool help;

	err = parse_options(&argp, "ps", argc, argv, NULL, &help);
	if (err || help)
		return err;
	err = list_pids(&pids, &count);
	if (err)
		return err;
	for (size_t i = 0; i < count; i++) {
		struct row row;

		if (look_at(pids[i], &row, &denied)) {
			if (!shown++)
				printf("%7s  %-12s %-22s %10s %7s  %s\n", "PID", "GO", "BUILD",
				       "GOROUTINES", "THREADS", "COMMAND");
			print_row(&row);
		}
		release_row(&row);
	}
	if (fflush(stdout))
		return error_errno(ERROR_FAILED, errno, "cannot write to standard output");
	if (denied)
		say_denied(denied);
	else if (!shown)
		say("there is no Go process here");
	return NULL;
}

const struct verb verb_ps = {"ps", "the Go processes of this machine", run};
