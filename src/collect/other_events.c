#include "collect/other_events.h"

#include <stdlib.h>

#include "base/clock.h"

/* The kernel's counters are read so often. */
#define MACHINE_NS 1000000000ull
#define NEVER UINT64_MAX

void other_events_init(struct other_events *o, pid_t pid)
{
	*o = (struct other_events){.cpu_next_ns = NEVER};
	machine_counters_init(&o->machine, pid);
}

void other_events_release(struct other_events *o)
{
	cpu_samples_close(o->cpu);
	error_destroy(o->no_cpu);
	intern_release(&o->cpu_stacks);
	c_functions_release(&o->c_functions);
	free(o->counts.events.items);
	free(o->kernels.events.items);
}

/* Events of one moment. */
static struct error *must_check add_to(struct other_source *s, const struct trace_event *events,
				       size_t count, uint64_t ns)
{
	struct error *err = NULL;

	if (s->taken == s->events.count)
		s->taken = s->events.count = 0;
	for (size_t i = 0; !err && i < count; i++) {
		struct trace_event ev = events[i];

		ev.ns = ns;
		err = trace_events_add(&s->events, &ev);
	}
	return err;
}

struct error *other_events_read_machine(struct other_events *o, bool now_too)
{
	struct trace_event read[TRACE_COUNTERS];
	uint64_t now = clock_now() - o->start_ns;

	if (o->machine_ns && now - o->machine_ns < MACHINE_NS && !now_too)
		return NULL;
	o->machine_ns = now;
	return add_to(&o->kernels, read, machine_counters_read(&o->machine, read), now);
}

/* ---- CPU samples ---- */

struct error *other_events_open_cpu(struct other_events *o, struct target *t,
				    const struct image *img, const struct golayout *lay, double hz,
				    int priority)
{
	struct error *err = NULL;

	if (hz > 0)
		err = cpu_samples_open(t, img, lay, hz, priority, &o->cpu);
	if (!err || err->code == ERROR_NO_MEMORY || err->code == ERROR_STOPPED)
		return err;
	o->no_cpu = err;
	return NULL;
}

static void see_next_cpu_sample(struct other_events *o)
{
	uint64_t ns = o->cpu ? cpu_samples_next(o->cpu) : NEVER;

	if (ns != NEVER)
		ns = ns > o->start_ns ? ns - o->start_ns : 1;
	o->cpu_next_ns = ns;
}

struct error *other_events_add(struct other_events *o, const struct collection *about)
{
	if (o->cpu)
		cpu_samples_fetch(o->cpu, about->taken_ns);
	see_next_cpu_sample(o);
	return add_to(&o->counts, about->counters, about->counter_count, about->ns - o->start_ns);
}

static struct error *must_check give_cpu_sample(struct other_events *o, struct trace_events *batch)
{
	size_t known = o->cpu_stacks.count;
	struct trace_event ev = {.ns = o->cpu_next_ns, .p = TRACE_NO_P, .kind = TRACE_CPU_SAMPLE};
	struct taken_sample s;

	if (!cpu_samples_take(o->cpu, NEVER, &s))
		return &error_no_memory;
	see_next_cpu_sample(o);
	/* The states after these events are not those at the time of the sample. */
	if (ev.ns < o->given_ns) {
		o->cpu_late++;
		return NULL;
	}
	ev.m = s.thread;
	ev.arg = s.start_pc;
	ev.arg2 = s.no_goroutine;
	ev.stack = intern_bytes(&o->cpu_stacks, s.words, s.word_count * sizeof(*s.words));
	if (ev.stack == INTERN_FAILED ||
	    (o->cpu_stacks.count > known && !cpu_samples_name_c(o->cpu, &s, &o->c_functions)))
		return &error_no_memory;
	o->given_ns = ev.ns;
	return trace_events_add(batch, &ev);
}

void other_events_cpu_lost(const struct other_events *o, uint64_t *ret_samples,
			   uint64_t *ret_threads)
{
	struct cpu_samples_stats stats = {0};

	if (o->cpu)
		cpu_samples_stats(o->cpu, &stats);
	*ret_samples = stats.lost + o->cpu_late;
	*ret_threads = stats.threads_unseen;
}

/* ---- in the order of time ---- */

static uint64_t next_of(const struct other_source *s)
{
	return s->taken < s->events.count ? s->events.items[s->taken].ns : NEVER;
}

static struct error *must_check give_next(struct other_events *o, struct other_source *s,
					  struct trace_events *batch)
{
	const struct trace_event *ev = &s->events.items[s->taken++];

	o->given_ns = ev->ns;
	return trace_events_add(batch, ev);
}

struct error *other_events_before(struct other_events *o, uint64_t ns, struct trace_events *batch)
{
	struct error *err = NULL;

	while (!err) {
		uint64_t counted = next_of(&o->counts), kernel = next_of(&o->kernels);
		uint64_t least = counted < kernel ? counted : kernel;

		least = o->cpu_next_ns < least ? o->cpu_next_ns : least;
		if (least == NEVER || least > ns)
			break;
		if (o->cpu_next_ns == least)
			err = give_cpu_sample(o, batch);
		else
			err = give_next(o, counted == least ? &o->counts : &o->kernels, batch);
	}
	return err;
}
