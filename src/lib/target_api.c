#include "lib/target_handle.h"

#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "lib/cancel_api.h"
#include "lib/error_api.h"
#include "lib/hold.h"
#include "lib/memory_snapshot_api.h"
#include "lib/options.h"
#include "lib/program.h"
#include "lib/stack.h"
#include "target/callback_memory.h"
#include "target/proc_status.h"

/* How long a Go program may take to set up its runtime before it counts as something else, and how
 * long a held program may take to become a Go program. */
#define START_SECONDS 5
#define EXEC_SECONDS 1

/* A pc has as many frames as calls were inlined there. */
#define MAX_INLINED 64

static void drop(struct gospect_target *t)
{
	golayout_close(take_ptr(t->layout));
	image_close(take_ptr(t->image));
	target_close(take_ptr(t->target));
}

void gospect_target_close(struct gospect_target *t)
{
	if (!t)
		return;
	memory_snapshot_drop(t);
	drop(t);
	arena_release(&t->last);
	strbuf_release(&t->build);
	free(t);
}

static void cleanup_target_handle(struct gospect_target **t)
{
	gospect_target_close(*t);
}
#define _cleanup_handle_ _cleanup_(cleanup_target_handle)

struct error *target_check_cancel(const struct gospect_target *t)
{
	return atomic_load(t->cancel) ? &error_stopped : NULL;
}

static struct error *must_check understand(struct gospect_target *t, const char *exe,
					   bool *ret_starting)
{
	struct error *err = image_open(t->target, exe, &t->image);

	if (!err)
		err = golayout_open(t->image, t->target, &t->layout);
	if (!err)
		err = golayout_validate(t->layout, t->image, t->target, ret_starting);
	return t->image ? image_check(t->image, err) : err;
}

/* One attempt. *ret_starting: the runtime is not set up yet. */
static struct error *must_check try_process(struct gospect_target *t, pid_t pid, const char *exe,
					    bool *ret_starting)
{
	struct error *err;

	*ret_starting = false;
	err = target_open_process(pid, &t->target);
	if (!err)
		err = understand(t, exe, ret_starting);
	return err && t->target ? target_explain(t->target, err) : err;
}

/* For a command that never became a Go program, the first error says most. */
static struct error *choose_reason(struct error *first, struct error *last)
{
	bool use_first = first && (last->code == ERROR_NOT_GO || last->code == ERROR_GONE);

	error_destroy(use_first ? last : first);
	return use_first ? first : last;
}

/* A runtime that is not set up yet does not match; but that is no reason if nobody waits for it. */
static struct error *unless_stopped(const struct gospect_target *t, struct error *err)
{
	if (!atomic_load(t->cancel))
		return err;
	error_destroy(err);
	return &error_stopped;
}

/* Whether a started program may still become a Go program: a shell that has not called exec yet.
 * During exec it may lack memory or auxv. */
static bool may_exec(pid_t pid, const struct error *err, uint64_t passed, double timeout)
{
	if (passed >= timeout * 1e9)
		return false;
	if (err->code == ERROR_NOT_GO)
		return true;
	return (err->code == ERROR_GONE || err->code == ERROR_FAILED || err->code == ERROR_FAULT ||
		err->code == ERROR_CORRUPT) &&
	       !child_has_ended(pid);
}

/* The result says what it was before it became a Go program; NULL: it was one from the start, or is
 * not held.
 */
static struct error *await_beginning(struct gospect_target *t,
				     const struct gospect_target_options *o)
{
	double seconds = o->exec_timeout > 0 ? o->exec_timeout : EXEC_SECONDS;

	return o->hold ? hold_where_it_begins(o->hold, o->exe, seconds, t->cancel) : NULL;
}

static struct error *must_check open_process(struct gospect_target *t, pid_t pid,
					     const struct gospect_target_options *o)
{
	double patience = o->start_timeout > 0 ? o->start_timeout : START_SECONDS;
	struct error *not_go = await_beginning(t, o);
	uint64_t start = clock_now();
	bool starting;

	for (;;) {
		struct error *err = try_process(t, pid, o->exe, &starting);
		uint64_t passed = clock_now() - start;
		bool loading = err && may_exec(pid, err, passed, o->exec_timeout);

		if (!err)
			error_destroy(not_go);
		if (!err)
			return NULL;
		if ((!starting && !loading) || passed > patience * 1e9 || atomic_load(t->cancel))
			return choose_reason(not_go, starting ? unless_stopped(t, err) : err);
		if (loading && !not_go && err->code == ERROR_NOT_GO)
			not_go = err;
		else
			error_destroy(err);
		drop(t);
		usleep(1000);
	}
}

/* Remarks that nothing in the process runs, so waits do not end. */
void target_remark_stopped(const struct gospect_target *t)
{
	pid_t pid = target_stands_still(t->target) ? 0 : t->info.pid;
	char state = !pid || t->is_held ? 0 : target_state(pid);

	if (state == 'T')
		remark(&t->remark, "process %d is stopped (SIGSTOP); kill -CONT %d resumes it", pid,
		       pid);
	else if (state == 't')
		remark(&t->remark, "process %d is stopped by process %d, a debugger", pid,
		       thread_tracer(pid));
}

/* A truncated core file may lack essential parts; then the error says so. */
static struct error *must_check explain_cut(const struct gospect_target *t, struct error *err)
{
	const struct target_core *core = t->target ? target_core(t->target) : NULL;

	if (!err || !core || !core->truncated)
		return err;
	return error_wrap(err, "%s is truncated: it has %lu of %lu bytes", core->path, core->size,
			  core->whole_size > core->size ? core->whole_size : 0);
}

static struct error *must_check open_core(struct gospect_target *t, const char *path,
					  const char *exe)
{
	struct error *err = target_open_core(path, exe, &t->target);
	bool starting;

	if (err)
		return err;
	err = image_open(t->target, NULL, &t->image);
	if (err)
		return err;
	err = golayout_open(t->image, t->target, &t->layout);
	if (!err)
		err = golayout_validate(t->layout, t->image, t->target, &starting);
	return explain_cut(t, err);
}

static struct error *must_check fill_info(struct gospect_target *t)
{
	const struct target_core *core = target_core(t->target);

	program_describe_build(t->image, &t->build);
	if (t->build.failed)
		return &error_no_memory;
	t->info = (struct gospect_target_info){
		.pid = core ? core->pid : target_pid(t->target),
		.is_core = core != NULL,
		.exe = target_exe_name(t->target),
		.go_version = t->image->info.version,
		.build = t->build.data,
		.build_id = elf_file_build_id(t->image->elf),
		.machine = t->image->machine == MACHINE_ARM64 ? "arm64" : "amd64",
	};
	return NULL;
}

static struct error *must_check create(const struct gospect_target_options *given,
				       struct gospect_target_options *options,
				       struct gospect_target **ret)
{
	struct error *err =
		options_take(given, options, sizeof(*options), "gospect_target_options");
	struct gospect_target *t;

	if (err)
		return err;
	t = calloc(1, sizeof(*t));
	if (!t)
		return &error_no_memory;
	t->build = (struct strbuf)STRBUF_INIT;
	t->cancel = cancel_flag(options->cancel);
	t->cancelled_by = options->cancel;
	t->is_held = options->hold;
	t->remark = (struct remark){options->remark, options->arg};
	*ret = t;
	return NULL;
}

/* The end of each way to open a target: hands *t to the caller unless there is an error. */
static struct gospect_error *hand_over(struct gospect_target **t, struct error *err,
				       struct gospect_target **ret)
{
	if (!err)
		err = fill_info(*t);
	if (!err)
		*ret = take_ptr(*t);
	return error_out(err);
}

struct gospect_error *gospect_target_open_process(int pid,
						  const struct gospect_target_options *given,
						  struct gospect_target **ret)
{
	_cleanup_handle_ struct gospect_target *t = NULL;
	struct gospect_target_options options = {0};
	struct error *err = create(given, &options, &t);

	if (!err && pid <= 0)
		err = error_format(ERROR_USAGE, "invalid process id %d: it must be greater than 0",
				   pid);
	if (!err)
		err = open_process(t, pid, &options);
	return hand_over(&t, err, ret);
}

struct gospect_error *gospect_target_open_core(const char *path,
					       const struct gospect_target_options *given,
					       struct gospect_target **ret)
{
	_cleanup_handle_ struct gospect_target *t = NULL;
	struct gospect_target_options options = {0};
	struct error *err = create(given, &options, &t);

	if (!err)
		err = open_core(t, path, options.exe);
	return hand_over(&t, err, ret);
}

static struct error *must_check open_callback(struct gospect_target *t,
					      const struct gospect_memory *given, const char *exe)
{
	struct gospect_memory m = {0};
	struct error *err = options_take(given, &m, sizeof(m), "gospect_memory");
	bool starting;

	if (!err && (!m.read || !m.exe))
		err = error_format(ERROR_USAGE,
				   "struct gospect_memory needs the callbacks read and exe");
	if (!err)
		err = target_open_callback(&(struct target_callbacks){m.read, m.arg, m.exe,
								      m.entry},
					   &t->target);
	for (size_t i = 0; !err && i < m.mapping_count; i++) {
		const struct gospect_mapping *from = &m.mappings[i];

		err = target_callback_map(t->target,
					  &(struct target_map){.start = from->start,
							       .end = from->end,
							       .offset = from->offset,
							       .readable = from->access & 1,
							       .writable = from->access & 2,
							       .executable = from->access & 4,
							       .path = (char *)from->path});
	}
	return err ? err : understand(t, exe, &starting);
}

struct gospect_error *gospect_target_open_memory(const struct gospect_memory *memory,
						 const struct gospect_target_options *given,
						 struct gospect_target **ret)
{
	_cleanup_handle_ struct gospect_target *t = NULL;
	struct gospect_target_options options = {0};
	struct error *err = create(given, &options, &t);

	if (!err)
		err = open_callback(t, memory, options.exe);
	return hand_over(&t, err, ret);
}

const struct gospect_target_info *gospect_target_info(const struct gospect_target *t)
{
	return &t->info;
}

struct gospect_error *gospect_target_count_goroutines(struct gospect_target *t, size_t *ret)
{
	struct error *err = target_check_cancel(t);
	long count;

	if (!err)
		err = program_count_goroutines(t->target, t->image, t->layout, &count);
	if (err)
		return error_out(target_explain(t->target, err));
	*ret = count;
	return NULL;
}

struct gospect_error *gospect_target_symbolize(struct gospect_target *t, uint64_t address,
					       const struct gospect_stack **ret)
{
	struct go_frame frames[MAX_INLINED];
	struct gospect_stack *stack;
	size_t n = 0;

	if (!stack_pc_is_pseudo(address) && pclntab_is_code(&t->image->functions, address))
		n = pclntab_frames(&t->image->functions, address | STACK_PC_EXACT, frames,
				   MAX_INLINED);
	arena_release(&t->last);
	stack = stack_create(&t->last, n);
	if (!stack)
		return error_out(&error_no_memory);
	for (size_t i = 0; i < n; i++)
		*stack_frame(stack, i) = frame_of(&frames[i], address);
	*ret = stack;
	return NULL;
}
