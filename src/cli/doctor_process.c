#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "cli/doctor.h"
#include "cli/probe.h"
#include "cli/program.h"
#include "cli/subject.h"
#include "inject/inject.h"
#include "oncpu/perf_events.h"
#include "target/access.h"

/* What there is to say of a process that could be opened. */
struct patient {
	struct subject subject;
	struct target_thread *threads;
	size_t thread_count;
};

static void patient_release(struct patient *p)
{
	free(p->threads);
	subject_close(&p->subject);
}

static void find_program(const struct patient *p)
{
	_cleanup_strbuf_ struct strbuf build = STRBUF_INIT;
	_cleanup_error_ struct error *err = NULL;
	const struct subject *s = &p->subject;
	long goroutines = 0;

	program_describe_build(s->image, &build);
	doctor_find(true, "program", "%s", target_exe_name(s->target));
	doctor_find(true, "Go", "%s, %s", s->image->info.version, build.data);
	err = program_count_goroutines(s->target, s->image, s->layout, &goroutines);
	if (err)
		doctor_find(false, "goroutines", "%s", err->message);
	else
		doctor_find(true, "goroutines", "%ld, in %zu threads", goroutines, p->thread_count);
}

static struct error *must_check find_tracer(const struct patient *p)
{
	for (size_t i = 0; i < p->thread_count; i++) {
		pid_t tracer = access_tracer(p->threads[i].id);
		struct error *err;

		if (!tracer)
			continue;
		err = error_format(ERROR_DENIED,
				   "process %d traces it (a debugger, strace); end that first",
				   tracer);
		doctor_find(false, "traced by", "process %d; the other verbs do not mind", tracer);
		return err;
	}
	doctor_find(true, "traced by", "nobody");
	return NULL;
}

/* Not ERROR_UNSUPPORTED: there was never anything to leave. */
static struct error *must_check find_leftovers(const struct patient *p)
{
	const struct subject *s = &p->subject;
	bool found = false;
	struct error *err = inject_clean(s->target, s->image, s->layout, &found);

	if (err && err->code != ERROR_UNSUPPORTED)
		doctor_find(false, "leftovers", "%s", err->message);
	else if (found)
		doctor_find(true, "leftovers",
			    "a trace that was killed had left its agent there; it "
			    "is taken out now");
	else
		doctor_find(true, "leftovers", "none of a trace that was killed");
	return err;
}

static struct error *must_check try_perf(const struct patient *p)
{
	_cleanup_perf_events_ struct perf_events *events = NULL;
	const struct perf_options options = {
		.hz = 100,
		.machine = p->subject.image->machine,
		.stack_size = 1024,
	};
	_cleanup_free_ pid_t *ids = calloc(p->thread_count + 1, sizeof(*ids));

	if (!ids)
		return &error_no_memory;
	for (size_t i = 0; i < p->thread_count; i++)
		ids[i] = p->threads[i].id;
	return perf_events_open(target_pid(p->subject.target), ids, p->thread_count, &options,
				&events);
}

static void find_verbs(struct doctor *d, const struct error *read, const struct error *perf,
		       const struct error *trace)
{
	static const char *const readers[] = {"ps", "dump", "stack", "record", "top"};

	for (size_t i = 0; i < sizeof(readers) / sizeof(*readers); i++)
		doctor_find_verb(d, readers[i], "reads its memory", read);
	doctor_find_verb(d, "record, what runs", "has the kernel sample it (perf_event_open)",
			 read ? read : perf);
	doctor_find_verb(d, "trace", "stops it for a moment and writes to it (ptrace)",
			 read ? read : trace);
	doctor_find_verb(d, "offcpu",
			 trace ? "samples it, as record does; where trace works it is exact"
			       : "traces it: exact times of each request",
			 read);
}

static struct error *open_patient(pid_t pid, struct patient *p)
{
	const struct subject_options options = {.pid = pid};
	struct error *err = subject_open(&options, &p->subject);

	return err ? err : target_threads(p->subject.target, &p->threads, &p->thread_count);
}

void doctor_look_at_process(struct doctor *d, pid_t pid)
{
	_cleanup_(patient_release) struct patient p = {0};
	_cleanup_error_ struct error *no_agent = doctor_trace_is_here();
	_cleanup_error_ struct error *tracer = NULL, *leftovers = NULL, *ptrace = NULL,
				     *perf = NULL, *closed = open_patient(pid, &p);

	doctor_head("process %d", pid);
	if (closed) {
		doctor_find(false, "process", "%s", closed->message);
		find_verbs(d, closed, NULL, NULL);
		return;
	}
	find_program(&p);
	tracer = find_tracer(&p);
	if (!tracer)
		leftovers = find_leftovers(&p);
	ptrace = probe_ptrace();
	perf = try_perf(&p);
	find_verbs(d, NULL, perf,
		   no_agent ? no_agent
		   : tracer ? tracer
		   : ptrace ? ptrace
			    : leftovers);
}
