#include "requests/machine.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cancel.h"
#include "base/cleanup.h"
#include "gotrace/event.h"
#include "gotrace/label_text.h"

/* What the report needs of a goroutine. */
struct goroutine {
	uint64_t id;
	enum trace_status state;
	bool since_start;       /* it has had its state since the trace began */
	bool lost;              /* another thread took its P during the system call */
	uint64_t since;         /* when the state began */
	uint32_t start;         /* its start function; 0: not known */
	uint32_t stack;         /* its last stack; 0: not known */
	uint32_t why;           /* it is runnable */
	uint64_t stopped;       /* ns of stops of the world before it became runnable */
	uint64_t assists_since; /* + 1; 0: it does not assist */
	uint32_t assist_stack;
	enum machine_worker worker;
	uint64_t works_since;
};

struct reading {
	struct machine_report *m;
	struct tables_filling filling;
	struct map goroutines; /* id -> struct goroutine * */
	uint64_t now;
	uint64_t stop;           /* index of the current stop + 1; 0: none */
	uint64_t stopped_before; /* ns of all stops that have ended */
	bool gc_runs;
	struct error *error;
};

static void fail(struct reading *r, struct error *err)
{
	r->error = r->error ?: err;
}

static struct goroutine *goroutine_of(struct reading *r, uint64_t id)
{
	uint64_t *place = id && id < TRACE_HELPER_GOID ? map_at(&r->goroutines, id) : NULL;
	struct goroutine *g;

	if (!place) {
		if (id && id < TRACE_HELPER_GOID)
			fail(r, &error_no_memory);
		return NULL;
	}
	if (*place)
		return (struct goroutine *)(uintptr_t)*place;
	g = calloc(1, sizeof(*g));
	if (!g) {
		fail(r, &error_no_memory);
		return NULL;
	}
	g->id = id;
	g->since = r->now;
	*place = (uintptr_t)g;
	return g;
}

static struct goroutine *known_goroutine(struct reading *r, uint64_t id)
{
	const uint64_t *place = map_find(&r->goroutines, id);

	return place ? (struct goroutine *)(uintptr_t)*place : NULL;
}

static struct processor *processor_of(struct reading *r, uint64_t id)
{
	return id == TRACE_NO_P ? NULL : processors_of(&r->m->processors, id);
}

/* Its stack is this one now. */
static void stand(struct reading *r, struct goroutine *g, uint64_t stack)
{
	if (!stack)
		return;
	g->stack = filling_stack(&r->filling, stack);
	if (!g->start)
		g->start = filling_start(&r->filling, stack);
}

static void change(struct reading *r, struct goroutine *g, enum trace_status state)
{
	g->state = state;
	g->since = r->now;
	g->since_start = false;
}

/* ---- stops of the world ---- */

static struct machine_stop *stop_under_way(struct reading *r)
{
	return r->stop ? &r->m->stops[r->stop - 1] : NULL;
}

static uint64_t stopped_so_far(struct reading *r)
{
	const struct machine_stop *stop = stop_under_way(r);

	return r->stopped_before + (stop ? r->now - stop->begin : 0);
}

static void end_stop(struct reading *r)
{
	struct machine_stop *stop = stop_under_way(r);

	if (!stop)
		return;
	stop->end = r->now;
	r->stopped_before += stop->end - stop->begin;
	r->stop = 0;
}

/* The world has stopped when no P runs Go code but that of the goroutine that stops it. */
static void check_stopped(struct reading *r, struct machine_stop *stop)
{
	if (r->m->processors.busy > 1 || stop->is_stopped)
		return;
	stop->is_stopped = true;
	stop->stopping_ns = r->now - stop->begin;
}

static void begin_stop(struct reading *r, const struct trace_step *step)
{
	struct machine_report *m = r->m;
	struct goroutine *g = goroutine_of(r, step->g);

	end_stop(r);
	if (!array_reserve(&m->stops, &m->stop_capacity, m->stop_count + 1)) {
		fail(r, &error_no_memory);
		return;
	}
	if (g)
		stand(r, g, step->arg[1]);
	m->stops[m->stop_count++] = (struct machine_stop){
		.begin = r->now,
		.g = step->g,
		.start = g ? g->start : 0,
		.stack = filling_stack(&r->filling, step->arg[1]),
		.reason = filling_text(&r->filling,
				       trace_reader_text(r->filling.reader, step->arg[0])),
		.last_p = TRACE_NO_P,
	};
	r->stop = m->stop_count;
	check_stopped(r, stop_under_way(r));
}

/* A P stops. If a stop of the world is in progress, it may be for that. */
static void give_up(struct reading *r, const struct processor *p)
{
	struct machine_stop *stop = stop_under_way(r);
	struct processor_run last;

	if (!stop || stop->is_stopped || p->run.g == stop->g)
		return;
	stop->given_up++;
	stop->stopping_ns = r->now - stop->begin;
	stop->last_p = p->id;
	stop->last_g = stop->last_stack = stop->last_start = 0;
	if (processor_last(p, stop->begin, &last)) {
		stop->last_g = last.g;
		stop->last_stack = last.stack;
		stop->last_start = last.start;
	}
}

/* ---- Ps ---- */

static void set_idle(struct reading *r, struct processor *p)
{
	struct processors *all = &r->m->processors;
	struct machine_stop *stop = stop_under_way(r);
	struct goroutine *g = p->run.g ? known_goroutine(r, p->run.g) : NULL;

	if (p->state == PROCESSOR_IDLE)
		return;
	if (g && g->state == TRACE_IN_SYSCALL)
		g->lost = true;
	processor_leave(p, g ? g->stack : 0, g ? g->start : 0, r->now);
	give_up(r, p);
	processor_change(all, p, PROCESSOR_IDLE, r->now);
	if (stop)
		check_stopped(r, stop);
}

/* Each generation repeats the state of each P: only the first one counts. */
static void say_processor(struct reading *r, const struct trace_step *step)
{
	static const enum processor_state states[] = {
		[PROC_RUNNING] = PROCESSOR_SCHEDULING,
		[PROC_IDLE] = PROCESSOR_IDLE,
		[PROC_IN_SYSCALL] = PROCESSOR_IN_SYSCALL,
	};
	size_t before = r->m->processors.count;
	struct processor *p = processor_of(r, step->arg[0]);

	if (p && r->m->processors.count > before && step->arg[1] >= PROC_RUNNING &&
	    step->arg[1] <= PROC_IN_SYSCALL)
		processor_begin(&r->m->processors, p, states[step->arg[1]]);
}

static void start_processor(struct reading *r, const struct trace_step *step)
{
	struct processor *p = processor_of(r, step->arg[0]);

	if (p)
		processor_change(&r->m->processors, p, PROCESSOR_SCHEDULING, r->now);
}

static void stop_processor(struct reading *r, uint64_t id)
{
	struct processor *p = processor_of(r, id);

	if (p)
		set_idle(r, p);
}

/* ---- goroutines on Ps ---- */

static void hold(struct reading *r, struct processor *p, const struct goroutine *g,
		 enum processor_state state)
{
	if (!p)
		return;
	processor_change(&r->m->processors, p, state, r->now);
	if (p->run.g != g->id)
		processor_run(p, g->id, g->start, r->now);
}

/* The state at the beginning of the trace. */
static void hold_from_start(struct reading *r, struct processor *p, const struct goroutine *g,
			    enum processor_state state)
{
	if (!p || !p->is_new)
		return;
	processor_begin(&r->m->processors, p, state);
	processor_run(p, g->id, g->start, 0);
}

static void leave(struct reading *r, const struct trace_step *step, const struct goroutine *g)
{
	struct processor *p = processor_of(r, step->p);

	if (!p)
		return;
	processor_leave(p, g->stack, g->start, r->now);
	processor_change(&r->m->processors, p, PROCESSOR_SCHEDULING, r->now);
}

static void end_work(struct reading *r, struct goroutine *g)
{
	if (g->worker)
		r->m->gc.worker_ns[g->worker] += r->now - g->works_since;
	g->worker = WORKER_NONE;
}

static void end_assist(struct reading *r, struct goroutine *g)
{
	if (g->assists_since)
		fail(r, machine_sums_add(&r->m->gc.assists, g->assist_stack,
					 r->now - (g->assists_since - 1), false));
	g->assists_since = 0;
}

/* ---- waits for a P ---- */

static void keep(struct machine_report *m, const struct machine_wait *wait)
{
	size_t at = m->longest_count;
	uint64_t ns = wait->end - wait->begin;

	while (at && m->longest[at - 1].end - m->longest[at - 1].begin < ns)
		at--;
	if (at == MACHINE_LONGEST)
		return;
	m->longest_count += m->longest_count < MACHINE_LONGEST;
	memmove(&m->longest[at + 1], &m->longest[at],
		(m->longest_count - at - 1) * sizeof(*m->longest));
	m->longest[at] = *wait;
}

static bool is_among_longest(const struct machine_report *m, uint64_t ns)
{
	const struct machine_wait *last = &m->longest[MACHINE_LONGEST - 1];

	return m->longest_count < MACHINE_LONGEST || last->end - last->begin < ns;
}

static void end_wait(struct reading *r, const struct goroutine *g, const struct processor *p)
{
	struct machine_wait wait = {
		.begin = g->since,
		.end = r->now,
		.g = g->id,
		.start = g->start,
		.stack = g->stack,
		.why = g->why,
		.p = p ? p->id : TRACE_NO_P,
		.stopped_ns = stopped_so_far(r) - g->stopped,
	};
	struct processor_run run;

	if (g->state != TRACE_RUNNABLE || g->since_start)
		return;
	histogram_add(&r->m->latency, r->now - g->since);
	if (!is_among_longest(r->m, r->now - g->since))
		return;
	if (p && processor_holder(p, wait.begin, wait.end, &run, &wait.holder_ns)) {
		wait.holder = run.g;
		wait.holder_start = run.start;
		wait.holder_stack = run.stack;
	}
	keep(r->m, &wait);
}

static void make_runnable(struct reading *r, struct goroutine *g, const char *why)
{
	if (!g)
		return;
	change(r, g, TRACE_RUNNABLE);
	g->why = filling_text(&r->filling, why);
	g->stopped = stopped_so_far(r);
}

static void start(struct reading *r, const struct trace_step *step, uint64_t id)
{
	struct goroutine *g = goroutine_of(r, id);
	struct processor *p = processor_of(r, step->p);

	if (!g)
		return;
	end_wait(r, g, p);
	change(r, g, TRACE_RUNNING);
	hold(r, p, g, PROCESSOR_RUNNING);
}

static void create(struct reading *r, const struct trace_step *step)
{
	struct goroutine *g = goroutine_of(r, step->arg[0]);

	if (!g)
		return;
	stand(r, g, step->arg[1]);
	if (step->op == OP_GO_CREATE)
		make_runnable(r, g, "created");
	else
		change(r, g, TRACE_WAITING);
}

/* It stops running: it is runnable, waits, or has ended. */
static void stop(struct reading *r, const struct trace_step *step)
{
	struct goroutine *g = goroutine_of(r, step->g);

	if (!g)
		return;
	stand(r, g, step->arg[1]);
	end_work(r, g);
	leave(r, step, g);
	if (step->op == OP_GO_STOP)
		make_runnable(r, g, trace_reader_text(r->filling.reader, step->arg[0]));
	else
		change(r, g, TRACE_WAITING);
}

static void destroy(struct reading *r, const struct trace_step *step)
{
	struct goroutine *g = known_goroutine(r, step->g);

	if (!g)
		return;
	end_work(r, g);
	end_assist(r, g);
	leave(r, step, g);
	map_remove(&r->goroutines, g->id);
	free(g);
}

static void switch_goroutine(struct reading *r, const struct trace_step *step)
{
	struct goroutine *g = goroutine_of(r, step->g);

	if (g)
		leave(r, step, g);
	if (step->op == OP_GO_SWITCH_DESTROY)
		destroy(r, step);
	else if (g)
		change(r, g, TRACE_WAITING);
	start(r, step, step->arg[0]);
}

/* ---- system calls ---- */

static void enter_syscall(struct reading *r, const struct trace_step *step)
{
	struct goroutine *g = goroutine_of(r, step->g);
	struct processor *p = processor_of(r, step->p);

	if (!g)
		return;
	stand(r, g, step->arg[1]);
	if (!step->arg[1])
		g->stack = 0;
	change(r, g, TRACE_IN_SYSCALL);
	g->lost = false;
	if (p)
		give_up(r, p);
	hold(r, p, g, PROCESSOR_IN_SYSCALL);
	if (stop_under_way(r))
		check_stopped(r, stop_under_way(r));
}

/* The begin is not known if it was before the trace, or in C. */
static void end_syscall(struct reading *r, struct goroutine *g)
{
	if (g->state == TRACE_IN_SYSCALL && !g->since_start)
		fail(r, machine_sums_add(&r->m->syscalls, g->stack, r->now - g->since, g->lost));
}

static void leave_syscall(struct reading *r, const struct trace_step *step)
{
	struct goroutine *g = goroutine_of(r, step->g);

	if (!g)
		return;
	end_syscall(r, g);
	if (step->op == OP_GO_SYSCALL_END_BLOCKED) {
		make_runnable(r, g, "system call ended");
		return;
	}
	change(r, g, TRACE_RUNNING);
	hold(r, processor_of(r, step->p), g, PROCESSOR_RUNNING);
}

/* A C thread calls Go: that is not a system call of the program. */
static void create_in_syscall(struct reading *r, const struct trace_step *step)
{
	struct goroutine *g = goroutine_of(r, step->arg[0]);

	if (!g)
		return;
	change(r, g, TRACE_IN_SYSCALL);
	g->since_start = true;
}

/* ---- what the trace begins with ---- */

static void say_goroutine(struct reading *r, const struct trace_step *step)
{
	uint64_t state = step->arg[2];
	struct goroutine *g;

	if (state < TRACE_RUNNABLE || state > TRACE_WAITING || known_goroutine(r, step->arg[0]))
		return;
	g = goroutine_of(r, step->arg[0]);
	if (!g)
		return;
	if (step->op == OP_GO_STATUS_STACK)
		stand(r, g, step->arg[3]);
	change(r, g, state);
	g->since_start = true;
	if (state == TRACE_RUNNING || (state == TRACE_IN_SYSCALL && step->arg[1] == step->m))
		hold_from_start(r, processor_of(r, step->p), g,
				state == TRACE_RUNNING ? PROCESSOR_RUNNING : PROCESSOR_IN_SYSCALL);
}

/* ---- the collector ---- */

static void begin_cycle(struct reading *r, bool from_start)
{
	struct machine_gc *gc = &r->m->gc;

	if (r->gc_runs)
		return;
	if (!array_reserve(&gc->cycles, &gc->capacity, gc->count + 1)) {
		fail(r, &error_no_memory);
		return;
	}
	gc->cycles[gc->count++] = (struct machine_cycle){.begin = from_start ? 0 : r->now,
							 .is_cut = from_start,
							 .first_stop = from_start ? 0 : r->stop};
	r->gc_runs = true;
}

static void end_cycle(struct reading *r)
{
	struct machine_gc *gc = &r->m->gc;

	/* It had begun before the trace. */
	if (!gc->count)
		begin_cycle(r, true);
	if (r->gc_runs) {
		gc->cycles[gc->count - 1].end = r->now;
		gc->cycles[gc->count - 1].last_stop = r->stop;
	}
	r->gc_runs = false;
}

static void begin_assist(struct reading *r, uint64_t id, uint64_t since, uint64_t stack)
{
	struct goroutine *g = goroutine_of(r, id);

	if (!g || g->assists_since)
		return;
	g->assists_since = since + 1;
	g->assist_stack = filling_stack(&r->filling, stack);
}

static void sweep(struct reading *r, const struct trace_step *step)
{
	struct processor *p =
		processor_of(r, step->op == OP_SWEEP_ACTIVE ? step->arg[0] : (uint64_t)step->p);

	if (!p)
		return;
	if (step->op == OP_SWEEP_END) {
		r->m->gc.swept_bytes += step->arg[0];
		r->m->gc.reclaimed_bytes += step->arg[1];
		if (p->sweeps_since)
			r->m->gc.sweep_ns += r->now - (p->sweeps_since - 1);
		p->sweeps_since = 0;
	} else if (!p->sweeps_since) {
		p->sweeps_since = (step->op == OP_SWEEP_ACTIVE ? 0 : r->now) + 1;
	}
}

/* A background worker has an event with its mode each time that it begins to work. */
static void label(struct reading *r, const struct trace_step *step)
{
	static const char *const labels[WORKERS] = {
		[WORKER_DEDICATED] = "GC (dedicated)",
		[WORKER_FRACTIONAL] = "GC (fractional)",
		[WORKER_IDLE] = "GC (idle)",
	};
	const char *text = trace_reader_text(r->filling.reader, step->arg[0]);
	struct goroutine *g = goroutine_of(r, step->g);

	for (size_t i = WORKER_DEDICATED; g && i < WORKERS; i++) {
		if (strcmp(text, labels[i]))
			continue;
		end_work(r, g);
		g->worker = i;
		g->works_since = r->now;
	}
}

static void take_collector(struct reading *r, const struct trace_step *step)
{
	struct machine_gc *gc = &r->m->gc;
	struct goroutine *g;

	switch (step->op) {
	case OP_GC_ACTIVE:
	case OP_GC_BEGIN:
		begin_cycle(r, step->op == OP_GC_ACTIVE && !gc->count);
		break;
	case OP_GC_END:
		end_cycle(r);
		break;
	case OP_ASSIST_ACTIVE:
		begin_assist(r, step->arg[0], 0, 0);
		break;
	case OP_ASSIST_BEGIN:
		begin_assist(r, step->g, r->now, step->arg[0]);
		break;
	case OP_ASSIST_END:
		g = known_goroutine(r, step->g);
		if (g)
			end_assist(r, g);
		break;
	case OP_HEAP_ALLOC:
		gc->heap_max = step->arg[0] > gc->heap_max ? step->arg[0] : gc->heap_max;
		break;
	case OP_HEAP_GOAL:
		gc->heap_goal = step->arg[0];
		break;
	default:
		sweep(r, step);
	}
}

static void count(struct reading *r, struct machine_counter *counter, const char *value)
{
	counter->last = strtoull(value, NULL, 10);
	counter->end = r->now;
	if (counter->is_known)
		return;
	counter->is_known = true;
	counter->first = counter->last;
	counter->begin = r->now;
}

/* Logs of the kernel's counters (COUNTER_CATEGORY). */
static void take_log(struct reading *r, const struct trace_step *step)
{
	const char *text = trace_reader_text(r->filling.reader, step->arg[2]);
	_cleanup_strbuf_ struct strbuf value = STRBUF_INIT;

	if (strcmp(trace_reader_text(r->filling.reader, step->arg[1]), COUNTER_CATEGORY) != 0)
		return;
	for (size_t i = 0; i < TRACE_COUNTERS; i++)
		if (label_text_find(text, trace_counter_names[i], &value))
			count(r, &r->m->counters[i], value.data);
	if (value.failed)
		fail(r, &error_no_memory);
}

/* Who ran, by a CPU sample. A thread without a goroutine has a stack whose outermost frame says
 * what it did. */
static uint32_t who_ran(struct reading *r, const struct trace_step *step)
{
	const struct goroutine *g = known_goroutine(r, step->arg[0]);
	const char *start = g ? intern_get(&r->m->tables.texts, g->start) : "";
	uint32_t root;

	if (step->arg[0] && g && g->state == TRACE_IN_SYSCALL)
		return filling_text(&r->filling, "system calls and C code");
	if (step->arg[0] && !strncmp(start, "runtime.", 8) && strcmp(start, "runtime.main") != 0)
		return filling_text(&r->filling, "goroutines of the runtime");
	if (step->arg[0])
		return filling_text(&r->filling, "goroutines of the program");
	root = filling_start(&r->filling, step->arg[1]);
	return *intern_get(&r->m->tables.texts, root) == '['
		       ? root
		       : filling_text(&r->filling, "between goroutines");
}

static void take_sample(struct reading *r, const struct trace_step *step)
{
	if (!running_split_add(&r->m->cpu, who_ran(r, step), 1))
		fail(r, &error_no_memory);
}

static void take(struct reading *r, const struct trace_step *step)
{
	switch (step->op) {
	case OP_PROCS_CHANGE:
		r->m->gomaxprocs = step->arg[0];
		break;
	case OP_PROC_START:
		start_processor(r, step);
		break;
	case OP_PROC_STOP:
		stop_processor(r, step->p);
		break;
	case OP_PROC_STEAL:
		stop_processor(r, step->arg[0]);
		break;
	case OP_PROC_STATUS:
		say_processor(r, step);
		break;
	case OP_GO_CREATE:
	case OP_GO_CREATE_BLOCKED:
		create(r, step);
		break;
	case OP_GO_CREATE_SYSCALL:
		create_in_syscall(r, step);
		break;
	case OP_GO_START:
		start(r, step, step->arg[0]);
		break;
	case OP_GO_STOP:
	case OP_GO_BLOCK:
		stop(r, step);
		break;
	case OP_GO_UNBLOCK:
		make_runnable(r, goroutine_of(r, step->arg[0]), "unblocked");
		break;
	case OP_GO_DESTROY:
	case OP_GO_DESTROY_SYSCALL:
		destroy(r, step);
		break;
	case OP_GO_SWITCH:
	case OP_GO_SWITCH_DESTROY:
		switch_goroutine(r, step);
		break;
	case OP_GO_SYSCALL_BEGIN:
		enter_syscall(r, step);
		break;
	case OP_GO_SYSCALL_END:
	case OP_GO_SYSCALL_END_BLOCKED:
		leave_syscall(r, step);
		break;
	case OP_GO_STATUS:
	case OP_GO_STATUS_STACK:
		say_goroutine(r, step);
		break;
	case OP_STW_BEGIN:
		begin_stop(r, step);
		break;
	case OP_STW_END:
		end_stop(r);
		break;
	case OP_GO_LABEL:
		label(r, step);
		break;
	case OP_LOG:
		take_log(r, step);
		break;
	case OP_CPU_SAMPLE:
		take_sample(r, step);
		break;
	case OP_GC_ACTIVE ... OP_HEAP_GOAL:
		take_collector(r, step);
		break;
	default:
		break;
	}
}

/* What has not ended ends with the trace. */
static void complete(struct reading *r)
{
	struct machine_report *m = r->m;
	struct machine_stop *stop = stop_under_way(r);

	if (stop)
		stop->is_cut = true;
	end_stop(r);
	if (r->gc_runs) {
		m->gc.cycles[m->gc.count - 1].is_cut = true;
		end_cycle(r);
	}
	for (size_t i = 0; i < r->goroutines.capacity; i++) {
		struct goroutine *g = (struct goroutine *)(uintptr_t)r->goroutines.slots[i].value;

		if (r->goroutines.slots[i].key == MAP_NO_KEY || !g)
			continue;
		end_work(r, g);
		end_assist(r, g);
		free(g);
	}
	map_release(&r->goroutines);
	m->duration = r->now;
	processors_complete(&m->processors, r->now);
	running_split_complete(&m->cpu, m->counters[TRACE_COUNTER_CPU].last -
						m->counters[TRACE_COUNTER_CPU].first);
	machine_sums_complete(&m->syscalls);
	machine_sums_complete(&m->gc.assists);
}

struct error *machine_read(struct trace_reader *reader, const atomic_int *cancel,
			   struct machine_report *ret)
{
	struct reading r = {.m = ret, .filling = {.reader = reader, .tables = &ret->tables}};
	struct trace_step step;
	struct error *err = NULL;
	bool more = true;

	while (!r.error && !r.filling.error) {
		err = cancel_check(cancel);
		if (!err)
			err = trace_reader_next(reader, &step, &more);
		if (err || !more)
			break;
		r.now = step.ns;
		take(&r, &step);
	}
	complete(&r);
	filling_release(&r.filling);
	err = err ?: r.error;
	return err ?: r.filling.error;
}

void machine_release(struct machine_report *m)
{
	span_tables_release(&m->tables);
	processors_release(&m->processors);
	free(m->stops);
	free(m->gc.cycles);
	machine_sums_release(&m->gc.assists);
	machine_sums_release(&m->syscalls);
	running_split_release(&m->cpu);
}
