/*
 * Only workers (lib/worker.h) parse the target's data. If names in it show a stale agent, a second
 * worker has a surgeon remove it.
 */
#include <gospect/trace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/strbuf.h"
#include "lib/error_api.h"
#include "lib/findings.h"
#include "lib/probe.h"
#include "lib/program.h"
#include "lib/target_handle.h"
#include "lib/worker.h"
#include "oncpu/perf_events.h"
#include "target/access.h"
#include "target/proc_status.h"

/* More than any genuine program takes. */
#define MEMORY (1ull << 30)
#define CPU_SECONDS 20
#define PATIENCE_NS 30000000000ull

/* An error that fits into a pipe. */
struct verdict {
	bool failed;
	enum error_code code;
	char message[600];
};

/* What a worker found out about a process. Strings are the target's, truncated. */
struct patient {
	pid_t pid;
	struct verdict open; /* if it failed, nothing else is known */
	struct verdict count;
	struct verdict perf;
	long goroutines;
	size_t thread_count;
	size_t filtered; /* threads with a seccomp filter */
	pid_t tracer;
	char program[512];
	char version[64];
	char build[96];
};

_Static_assert(sizeof(struct patient) <= WORKER_MAX_RESULT, "it is a worker's result");

/* ---- in the worker ---- */

static void give_verdict(struct verdict *v, struct error *err)
{
	v->failed = err;
	if (err) {
		v->code = err->code;
		snprintf(v->message, sizeof(v->message), "%s", err->message);
	}
	error_destroy(err);
}

static void read_program(const struct gospect_target *s, struct patient *p)
{
	_cleanup_strbuf_ struct strbuf build = STRBUF_INIT;

	program_describe_build(s->image, &build);
	snprintf(p->program, sizeof(p->program), "%s", target_exe_name(s->target));
	snprintf(p->version, sizeof(p->version), "%s", s->image->info.version);
	snprintf(p->build, sizeof(p->build), "%s", build.data);
	give_verdict(&p->count,
		     program_count_goroutines(s->target, s->image, s->layout, &p->goroutines));
}

static struct error *must_check try_perf(const struct gospect_target *s,
					 const struct target_thread *threads, size_t count)
{
	_cleanup_perf_events_ struct perf_events *events = NULL;
	const struct perf_options options = {
		.hz = 100,
		.machine = s->image->machine,
		.stack_size = 1024,
	};
	_cleanup_free_ pid_t *ids = calloc(count + 1, sizeof(*ids));

	if (!ids)
		return &error_no_memory;
	for (size_t i = 0; i < count; i++)
		ids[i] = threads[i].id;
	return perf_events_open(target_pid(s->target), ids, count, &options, &events);
}

static void look_at_threads(const struct target_thread *threads, size_t count, struct patient *p)
{
	p->thread_count = count;
	p->filtered = access_filtered_threads(p->pid);
	for (size_t i = 0; i < count && !p->tracer; i++)
		p->tracer = thread_tracer(threads[i].id);
}

static void look_at(void *result, struct gospect_surgeon *surgeon, struct error *err)
{
	struct patient *p = result;
	_cleanup_free_ struct target_thread *threads = NULL;
	_cleanup_gospect_target_ struct gospect_target *s = NULL;
	size_t count = 0;

	if (!err)
		err = error_in(gospect_target_open_process(p->pid, NULL, &s));
	if (!err)
		err = target_threads(s->target, &threads, &count);
	give_verdict(&p->open, err);
	if (p->open.failed)
		return;
	read_program(s, p);
	look_at_threads(threads, count, p);
	give_verdict(&p->perf, try_perf(s, threads, count));
}

/* The result of a second worker, which removes a stale agent. */
struct cleaning {
	pid_t pid;
	int found;
	struct verdict verdict;
};

_Static_assert(sizeof(struct cleaning) <= WORKER_MAX_RESULT, "it is a worker's result");

/* The worker reads the program; the surgeon writes to it. */
static void clean(void *result, struct gospect_surgeon *surgeon, struct error *err)
{
	struct cleaning *c = result;
	_cleanup_gospect_target_ struct gospect_target *s = NULL;

	if (!err)
		err = error_in(gospect_target_open_process(c->pid, NULL, &s));
	if (!err)
		err = error_in(gospect_trace_clean(s, surgeon, &c->found));
	give_verdict(&c->verdict, err);
}

/* ---- in the process that asks ---- */

/* NULL: there was no error. */
static struct error *must_check verdict_error(const struct verdict *v)
{
	if (!v->failed)
		return NULL;
	return error_format(v->code <= ERROR_USAGE ? v->code : ERROR_FAILED, "%s", v->message);
}

static void end_texts(struct patient *p)
{
	struct verdict *verdicts[] = {&p->open, &p->count, &p->perf};

	for (size_t i = 0; i < ARRAY_SIZE(verdicts); i++)
		verdicts[i]->message[sizeof(verdicts[i]->message) - 1] = '\0';
	p->program[sizeof(p->program) - 1] = '\0';
	p->version[sizeof(p->version) - 1] = '\0';
	p->build[sizeof(p->build) - 1] = '\0';
}

static struct error *must_check examine(const struct findings *to, pid_t pid, struct patient *p)
{
	const struct worker_job job = {.target = pid,
				       .memory = MEMORY,
				       .cpu_seconds = CPU_SECONDS,
				       .work = look_at,
				       .result = p,
				       .size = sizeof(*p)};
	struct worker w;
	struct error *err;

	p->pid = pid;
	err = worker_start(&w, &job, clock_now() + PATIENCE_NS);
	if (!err)
		err = worker_wait(&w);
	if (!err && *w.remark)
		findings_add(to, false, "sandbox", "%s", w.remark);
	p->pid = pid;
	end_texts(p);
	return err ? err : verdict_error(&p->open);
}

static void find_program(const struct findings *to, const struct patient *p)
{
	findings_add(to, true, "program", "%s", p->program);
	findings_add(to, true, "Go", "%s, %s", p->version, p->build);
	if (target_state(p->pid) == 'T')
		findings_add(to, false, "state", "stopped (SIGSTOP): kill -CONT %d resumes it",
			     p->pid);
	else
		findings_add(to, true, "state", "not stopped");
	if (p->count.failed)
		findings_add(to, false, "goroutines", "%s", p->count.message);
	else
		findings_add(to, true, "goroutines", "%ld, in %zu threads", p->goroutines,
			     p->thread_count);
}

static struct error *must_check find_tracer(const struct findings *to, const struct patient *p)
{
	if (!p->tracer) {
		findings_add(to, true, "traced by", "nobody");
		return NULL;
	}
	findings_add(to, false, "traced by",
		     "process %d (a debugger or strace): trace fails, the other verbs work",
		     p->tracer);
	return error_format(
		ERROR_DENIED,
		"process %d already traces this process (a debugger or strace); stop that tracer first",
		p->tracer);
}

/* Filters matter to trace alone: it has the target make system calls. */
static struct error *must_check find_filters(const struct findings *to, const struct patient *p)
{
	struct error *err = p->filtered ? probe_suspend_filters() : NULL;

	if (p->filtered)
		findings_add(to, !err, "seccomp", "a filter is active on %zu of %zu threads",
			     p->filtered, p->thread_count);
	else
		findings_add(to, true, "seccomp", "no filter");
	return err;
}

static bool is_named_as_ours(const char *path)
{
	return !strncmp(path, "/memfd:gospect-", strlen("/memfd:gospect-"));
}

static bool has_descriptor_of_ours(pid_t pid)
{
	_cleanup_closedir_ DIR *folder = descriptor_folder_open(pid);
	char to[64];

	while (folder && descriptor_folder_next(folder, to, sizeof(to)) >= 0)
		if (is_named_as_ours(to))
			return true;
	return false;
}

/* By the names of mappings and descriptors (inject/stale_agent.h): nothing of the program is
 * read. */
static struct error *must_check look_for_stale_agent(pid_t pid, bool *ret)
{
	_cleanup_target_ struct target *t = NULL;
	_cleanup_maps_ struct target_maps maps = {0};
	struct error *err = target_open_process(pid, &t);

	if (!err)
		err = target_maps(t, &maps);
	if (err)
		return err;
	*ret = has_descriptor_of_ours(pid);
	for (size_t i = 0; i < maps.count; i++)
		*ret |= is_named_as_ours(maps.items[i].path);
	return NULL;
}

static struct error *must_check have_it_cleaned(pid_t pid, bool *ret_found)
{
	struct cleaning c = {.pid = pid};
	const struct worker_job job = {.target = pid,
				       .cleans = true,
				       .memory = MEMORY,
				       .cpu_seconds = CPU_SECONDS,
				       .work = clean,
				       .result = &c,
				       .size = sizeof(c)};
	struct worker w;
	struct error *err = worker_start(&w, &job, clock_now() + PATIENCE_NS);

	if (!err)
		err = worker_wait(&w);
	if (err)
		return err;
	c.verdict.message[sizeof(c.verdict.message) - 1] = '\0';
	*ret_found = c.found;
	return verdict_error(&c.verdict);
}

/* If tracing is not supported here, no agent can be left behind. */
static struct error *must_check find_stale_agent(const struct findings *to, const struct patient *p)
{
	bool seen = false, found = false;
	struct error *err = look_for_stale_agent(p->pid, &seen);

	if (!err && seen)
		err = have_it_cleaned(p->pid, &found);
	if (err && err->code != ERROR_UNSUPPORTED)
		findings_add(to, false, "stale agent", "%s", err->message);
	else if (found)
		findings_add(to, true, "stale agent", "removed the agent that a killed trace left");
	else
		findings_add(to, true, "stale agent", "none");
	return err;
}

static void find_verbs(const struct findings *to, const struct error *read,
		       const struct error *perf, const struct error *trace)
{
	findings_add_readers(to, "reads its memory", read);
	findings_add_verb(to, "record, on-CPU",
			  "the kernel samples running threads (perf_event_open)",
			  read ? read : perf);
	findings_add_verb(to, "trace", "stops it briefly and writes to it (ptrace)",
			  read ? read : trace);
	findings_add_verb(
		to, "offcpu",
		trace ? "samples goroutines like record; measures exactly where trace works"
		      : "traces the program: exact times of each request",
		read);
}

static void look_at_process(const struct findings *to, pid_t pid)
{
	struct patient p = {0};
	_cleanup_error_ struct error *no_agent = findings_agent();
	_cleanup_error_ struct error *tracer = NULL, *stale_agent = NULL, *ptrace = NULL,
				     *perf = NULL, *filters = NULL, *closed = examine(to, pid, &p);

	if (closed) {
		findings_add(to, false, "process", "%s", closed->message);
		find_verbs(to, closed, NULL, NULL);
		return;
	}
	find_program(to, &p);
	tracer = find_tracer(to, &p);
	filters = find_filters(to, &p);
	if (!tracer)
		stale_agent = find_stale_agent(to, &p);
	ptrace = probe_ptrace();
	perf = verdict_error(&p.perf);
	find_verbs(to, NULL, perf,
		   no_agent  ? no_agent
		   : tracer  ? tracer
		   : ptrace  ? ptrace
		   : filters ? filters
			     : stale_agent);
}

void gospect_doctor_process(int pid,
			    void (*finding)(void *arg, const struct gospect_finding *finding),
			    void *arg)
{
	look_at_process(&(const struct findings){finding, arg}, pid);
}
