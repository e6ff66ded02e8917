#include "cli/report_machine_json.h"

#include <json-c/json.h>

#include "cli/report_rows.h"
#include "cli/report_wakers.h"

static size_t shown(size_t rows, size_t count)
{
	return rows && rows < count ? rows : count;
}

/* NULL for none. */
static struct json_object *goroutine_json(const struct gospect_machine_goroutine *g)
{
	struct json_object *o = g ? json_object_new_object() : NULL;

	if (!o)
		return NULL;
	report_add_number(o, "id", g->id);
	report_add_text(o, "func", g->function);
	json_object_object_add(o, "frames", report_frames_json(g->stack));
	return o;
}

static struct json_object *processors_json(const struct gospect_machine_info *m)
{
	struct json_object *list = json_object_new_array();

	for (size_t i = 0; i < m->processor_count; i++) {
		struct json_object *o = json_object_new_object();

		report_add_number(o, "id", m->processors[i]->id);
		report_add_number(o, "running_ns", m->processors[i]->running_ns);
		report_add_number(o, "syscall_ns", m->processors[i]->syscall_ns);
		report_add_number(o, "scheduling_ns", m->processors[i]->scheduling_ns);
		report_add_number(o, "idle_ns", m->processors[i]->idle_ns);
		json_object_array_add(list, o);
	}
	return list;
}

/* NULL: the trace does not have it. */
static struct json_object *kernel_json(const struct gospect_machine_info *m)
{
	struct json_object *o = m->kernel_ns ? json_object_new_object() : NULL;

	if (!o)
		return NULL;
	report_add_number(o, "duration_ns", m->kernel_ns);
	report_add_number(o, "cpu_ns", m->cpu_ns);
	report_add_number(o, "machine_ns", m->machine_ns);
	report_add_number(o, "steal_ns", m->steal_ns);
	report_add_number(o, "periods", m->periods);
	report_add_number(o, "throttled_periods", m->throttled_periods);
	report_add_number(o, "throttled_ns", m->throttled_ns);
	return o;
}

static struct json_object *stop_json(const struct gospect_machine_stop *s)
{
	struct json_object *o = json_object_new_object();

	report_add_text(o, "reason", s->reason);
	report_add_number(o, "begin_ns", s->begin_ns);
	report_add_number(o, "duration_ns", s->duration_ns);
	report_add_number(o, "stopping_ns", s->stopping_ns);
	json_object_object_add(o, "complete", json_object_new_boolean(!s->is_incomplete));
	json_object_object_add(o, "by", goroutine_json(s->by));
	report_add_number(o, "ps_given_up", s->given_up);
	if (s->given_up)
		report_add_number(o, "last_p", s->last_p);
	json_object_object_add(o, "last", goroutine_json(s->last));
	return o;
}

static struct json_object *stops_json(const struct gospect_machine_info *m, size_t rows)
{
	struct json_object *list = json_object_new_array();

	for (size_t i = 0; i < shown(rows, m->stop_count); i++)
		json_object_array_add(list, stop_json(m->stops[i]));
	return list;
}

static struct json_object *wait_json(const struct gospect_machine_wait *w)
{
	struct json_object *o = json_object_new_object();

	report_add_number(o, "begin_ns", w->begin_ns);
	report_add_number(o, "duration_ns", w->duration_ns);
	report_add_text(o, "why", w->why);
	report_add_number(o, "p", w->p);
	report_add_number(o, "stopped_ns", w->stopped_ns);
	json_object_object_add(o, "goroutine", goroutine_json(w->goroutine));
	json_object_object_add(o, "holder", goroutine_json(w->holder));
	report_add_number(o, "holder_ns", w->holder_ns);
	return o;
}

static struct json_object *latency_json(const struct gospect_machine_info *m, size_t rows)
{
	struct json_object *o = json_object_new_object(), *buckets = json_object_new_array();
	struct json_object *longest = json_object_new_array();

	report_add_number(o, "count", m->wait_count);
	report_add_number(o, "total_ns", m->waits_ns);
	report_add_number(o, "p50_ns", m->wait_p50_ns);
	report_add_number(o, "p90_ns", m->wait_p90_ns);
	report_add_number(o, "p99_ns", m->wait_p99_ns);
	report_add_number(o, "max_ns", m->wait_max_ns);
	for (size_t i = 0; i < m->bucket_count; i++) {
		struct json_object *b = json_object_new_object();

		report_add_number(b, "below_ns", m->buckets[i]->below_ns);
		report_add_number(b, "count", m->buckets[i]->count);
		json_object_array_add(buckets, b);
	}
	for (size_t i = 0; i < shown(rows, m->longest_count); i++)
		json_object_array_add(longest, wait_json(m->longest[i]));
	json_object_object_add(o, "histogram", buckets);
	json_object_object_add(o, "longest", longest);
	return o;
}

static struct json_object *calls_json(const struct gospect_machine_calls *const *calls,
				      size_t count, bool are_syscalls)
{
	struct json_object *list = json_object_new_array();

	for (size_t i = 0; i < count; i++) {
		struct json_object *o = json_object_new_object();

		if (are_syscalls) {
			report_add_text(o, "name", calls[i]->name);
			report_add_number(o, "lost_p", calls[i]->lost);
		}
		report_add_number(o, "count", calls[i]->count);
		report_add_number(o, "ns", calls[i]->total_ns);
		report_add_number(o, "longest_ns", calls[i]->longest_ns);
		json_object_object_add(o, "frames", report_frames_json(calls[i]->stack));
		json_object_array_add(list, o);
	}
	return list;
}

static struct json_object *cpu_json(const struct gospect_machine_info *m)
{
	struct json_object *list = json_object_new_array();

	for (size_t i = 0; i < m->cpu_user_count; i++) {
		struct json_object *o = json_object_new_object();

		report_add_text(o, "name", m->cpu_users[i].function);
		report_add_number(o, "samples", m->cpu_users[i].samples);
		report_add_number(o, "ns", m->cpu_users[i].ns);
		report_add_number(o, "error_ns", m->cpu_users[i].error_ns);
		json_object_array_add(list, o);
	}
	return list;
}

static struct json_object *phase_json(const struct gospect_machine_stop *s)
{
	struct json_object *o = s ? json_object_new_object() : NULL;

	if (!o)
		return NULL;
	report_add_number(o, "begin_ns", s->begin_ns);
	report_add_number(o, "duration_ns", s->duration_ns);
	return o;
}

static void add_phases(struct json_object *o, const struct gospect_machine_cycle *c)
{
	const struct gospect_machine_stop *first = c->sweep_termination;

	json_object_object_add(o, "sweep_termination", phase_json(first));
	report_add_number(o, "mark_ns", c->mark_ns);
	json_object_object_add(o, "mark_termination", phase_json(c->mark_termination));
	json_object_object_add(o, "begun_by", goroutine_json(first ? first->by : NULL));
}

static struct json_object *cycles_json(const struct gospect_machine_info *m, size_t rows)
{
	struct json_object *list = json_object_new_array();

	for (size_t i = 0; i < shown(rows, m->cycle_count); i++) {
		struct json_object *o = json_object_new_object();

		report_add_number(o, "begin_ns", m->cycles[i]->begin_ns);
		report_add_number(o, "duration_ns", m->cycles[i]->duration_ns);
		json_object_object_add(o, "whole", json_object_new_boolean(!m->cycles[i]->is_cut));
		add_phases(o, m->cycles[i]);
		json_object_array_add(list, o);
	}
	return list;
}

static struct json_object *collector_json(const struct gospect_machine_info *m, size_t rows)
{
	struct json_object *o = json_object_new_object(), *assists = json_object_new_object();

	report_add_number(o, "cycle_count", m->cycle_count);
	report_add_number(o, "cycles_ns", m->cycles_ns);
	json_object_object_add(o, "cycles", cycles_json(m, rows));
	report_add_number(o, "dedicated_ns", m->dedicated_ns);
	report_add_number(o, "fractional_ns", m->fractional_ns);
	report_add_number(o, "idle_ns", m->idle_worker_ns);
	report_add_number(o, "sweep_ns", m->sweep_ns);
	report_add_number(o, "swept_bytes", m->swept_bytes);
	report_add_number(o, "reclaimed_bytes", m->reclaimed_bytes);
	report_add_number(o, "heap_max_bytes", m->heap_max_bytes);
	report_add_number(o, "heap_goal_bytes", m->heap_goal_bytes);
	report_add_number(assists, "count", m->assist_count);
	report_add_number(assists, "ns", m->assists_ns);
	json_object_object_add(assists, "stacks",
			       calls_json(m->assists, shown(rows, m->assist_stack_count), false));
	json_object_object_add(o, "assists", assists);
	return o;
}

void report_write_machine_json(const struct gospect_machine_info *m, size_t rows, FILE *out)
{
	struct json_object *o = json_object_new_object(), *calls = json_object_new_object();
	const struct report_rows all = {.out = out, .list = o};

	report_add_number(o, "duration_ns", m->duration_ns);
	report_add_number(o, "gomaxprocs", m->gomaxprocs);
	json_object_object_add(o, "ps", processors_json(m));
	json_object_object_add(o, "kernel", kernel_json(m));
	json_object_object_add(o, "cpu", cpu_json(m));
	report_add_number(o, "stop_count", m->stop_count);
	report_add_number(o, "stops_ns", m->stops_ns);
	json_object_object_add(o, "stops", stops_json(m, rows));
	json_object_object_add(o, "scheduling_latency", latency_json(m, rows));
	json_object_object_add(o, "gc", collector_json(m, rows));
	report_add_number(calls, "count", m->syscall_count);
	report_add_number(calls, "ns", m->syscalls_ns);
	json_object_object_add(calls, "stacks",
			       calls_json(m->syscalls, shown(rows, m->syscall_stack_count), true));
	json_object_object_add(o, "syscalls", calls);
	report_rows_write_list(&all);
	json_object_put(o);
}
