#include "lib/process_row.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "golayout/golayout.h"
#include "image/image.h"
#include "lib/program.h"
#include "target/proc_status.h"
#include "target/target.h"

/* More than any genuine program takes. */
#define MEMORY (512ull << 20)
#define CPU_SECONDS 5

/* ---- in the worker ---- */

static void describe(const struct image *img, struct process_row *row)
{
	_cleanup_strbuf_ struct strbuf build = STRBUF_INIT;
	const char *version = *img->info.version ? img->info.version : "unknown";

	program_describe_build(img, &build);
	snprintf(row->version, sizeof(row->version), "%s", version);
	snprintf(row->build, sizeof(row->build), "%s", build.data);
}

static struct error *must_check look_inside(struct target *t, struct image *img,
					    struct process_row *row)
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

/* Whether the program is Go's, by the file alone, for a process that gospect may not read. */
static bool is_go_file(struct process_row *row)
{
	_cleanup_image_ struct image *img = NULL;
	char path[PROCESS_EXE_PATH];

	process_exe_path(row->pid, path);
	if (error_dropped(image_open_file(path, &img)))
		return false;
	describe(img, row);
	return true;
}

static void explain(struct process_row *row, struct error *err)
{
	if (err)
		snprintf(row->reason, sizeof(row->reason), "%s", err->message);
	error_destroy(err);
}

static void look_at(struct process_row *row)
{
	_cleanup_target_ struct target *t = NULL;
	_cleanup_image_ struct image *img = NULL;
	struct error *err = target_open_process(row->pid, &t);
	bool denied = err && err->code == ERROR_DENIED;

	process_command(row->pid, row->command, sizeof(row->command));
	if (denied && is_go_file(row)) {
		row->kind = PROCESS_GO;
		explain(row, err);
		return;
	}
	if (!err)
		err = image_open(t, NULL, &img);
	if (err) {
		row->kind = err->code == ERROR_DENIED ? PROCESS_DENIED : PROCESS_OTHER;
		explain(row, err);
		return;
	}
	describe(img, row);
	err = image_check(img, look_inside(t, img, row));
	row->kind = err && err->code == ERROR_GONE ? PROCESS_OTHER : PROCESS_GO;
	explain(row, err);
}

static void work(void *result, struct gospect_surgeon *surgeon, struct error *err)
{
	struct process_row *row = result;

	if (!err) {
		look_at(row);
		return;
	}
	row->kind = PROCESS_GO;
	explain(row, err);
}

/* ---- in the process that lists ---- */

_Static_assert(sizeof(struct process_row) <= WORKER_MAX_RESULT, "a row is a worker's result");

struct error *process_worker_start(struct process_worker *w, struct process_row *row,
				   uint64_t deadline_ns)
{
	row->goroutines = -1;
	w->row = row;
	w->job = (struct worker_job){.target = row->pid,
				     .memory = MEMORY,
				     .cpu_seconds = CPU_SECONDS,
				     .work = work,
				     .result = row,
				     .size = sizeof(*row)};
	return worker_start(&w->worker, &w->job, deadline_ns);
}

void process_worker_finish(struct process_worker *w)
{
	struct process_row *row = w->row;
	char name[sizeof(row->name)], container[sizeof(row->container)];
	uint64_t start = row->start;
	pid_t pid = row->pid;
	struct error *err;

	memcpy(name, row->name, sizeof(name));
	memcpy(container, row->container, sizeof(container));
	err = worker_finish(&w->worker);
	row->pid = pid;
	row->start = start;
	memcpy(row->name, name, sizeof(name));
	memcpy(row->container, container, sizeof(container));
	row->version[sizeof(row->version) - 1] = '\0';
	row->build[sizeof(row->build) - 1] = '\0';
	row->command[sizeof(row->command) - 1] = '\0';
	row->reason[sizeof(row->reason) - 1] = '\0';
	if (!err)
		return;
	row->kind = PROCESS_GO;
	process_command(pid, row->command, sizeof(row->command));
	explain(row, err);
}
