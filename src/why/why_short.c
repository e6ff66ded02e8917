/* The rules about what is short: CPU, memory. */
#include <inttypes.h>
#include <string.h>

#include "why/rule.h"
#include "why/thresholds.h"
#include "why/why_words.h"

static bool is_busy(const struct why_numbers *n)
{
	if (n->cpu.samples < LEAST_SAMPLES)
		return false;
	return n->cpu.cores >= BUSY_CORES || n->running + n->ready >= 2 * BUSY_CORES;
}

/* ---- short of CPU ---- */

bool why_find_throttled(const struct why_numbers *n, struct draft *d)
{
	const struct why_cpu *c = &n->cpu;
	double part = c->periods > 0 ? c->throttled / c->periods : 0;

	if (!(c->quota > 0) || part < THROTTLED_PART ||
	    c->throttled_s < THROTTLED_TIME * n->seconds)
		return false;
	strbuf_adds(&d->sentence, "Short of CPU: the control group throttles the process in ");
	why_add_share(&d->sentence, part);
	strbuf_adds(&d->sentence, " of the periods: its quota is ");
	why_add_amount(&d->sentence, c->quota);
	strbuf_adds(&d->sentence, c->quota == 1 ? " CPU" : " CPUs");
	strbuf_addf(&d->evidence, "cpu.stat: %.0f of %.0f periods, ", c->throttled, c->periods);
	why_add_seconds(&d->evidence, c->throttled_s);
	strbuf_adds(&d->evidence, " of held threads");
	if (c->cores >= 0) {
		strbuf_adds(&d->evidence, "; it used ");
		why_add_amount(&d->evidence, c->cores);
		strbuf_adds(&d->evidence, " CPUs");
	}
	if (c->procs > 0)
		strbuf_addf(&d->evidence, "; GOMAXPROCS is %.0f", c->procs);
	strbuf_addf(&d->next, "gospect record %s -d 10 --on-cpu -o cpu.html", n->target);
	return true;
}

bool why_find_spin(const struct why_numbers *n, struct draft *d)
{
	const struct why_spin *s = &n->spin;

	if (!n->cpu.unsampled && n->cpu.samples < LEAST_SAMPLES)
		return false;
	if (!s->goroutine || s->part < SPIN_PART || s->running < SPIN_RUNNING ||
	    s->looks < SPIN_LOOKS ||
	    (!n->cpu.unsampled && (!s->function || s->in_function < SPIN_FUNCTION)))
		return false;
	d->severity = n->cpu.unsampled ? WHY_MINOR : WHY_SERIOUS;
	strbuf_addf(&d->sentence, "Short of CPU: goroutine %" PRIu64 " spins", s->goroutine);
	if (s->function) {
		strbuf_adds(&d->sentence, " in ");
		why_add_function(&d->sentence, s->function);
	}
	strbuf_adds(&d->sentence, ": a hot loop that never waits");
	strbuf_adds(&d->evidence, "it ran for ");
	why_add_share(&d->evidence, s->running);
	strbuf_adds(&d->evidence, " of the time");
	if (s->function && !n->cpu.unsampled) {
		strbuf_adds(&d->evidence, "; ");
		why_add_share(&d->evidence, s->in_function);
		strbuf_adds(&d->evidence, " of its CPU samples are in that function itself");
	}
	if (s->goroutines > 1)
		strbuf_addf(&d->evidence, "; %zu goroutines do so", s->goroutines);
	strbuf_addf(&d->next, "gospect record %s -d 10 --on-cpu -o cpu.html", n->target);
	return true;
}

bool why_find_timers(const struct why_numbers *n, struct draft *d)
{
	if (n->cpu.timers < TIMER_PART || !is_busy(n))
		return false;
	strbuf_adds(&d->sentence, "Short of CPU: a timer storm: ");
	why_add_share(&d->sentence, n->cpu.timers);
	strbuf_adds(&d->sentence, " of the CPU time sets and fires timers");
	strbuf_adds(&d->evidence, "the process uses ");
	why_add_amount(&d->evidence, n->cpu.cores);
	strbuf_adds(&d->evidence, " CPUs; CPU samples are in functions of the runtime's timers");
	strbuf_addf(&d->next, "gospect record %s -d 10 --on-cpu --runtime -o cpu.html", n->target);
	return true;
}

static void add_why_not(struct strbuf *sb, const struct why_numbers *n)
{
	if (n->cpu.procs > 0)
		strbuf_addf(sb, "GOMAXPROCS is %.0f", n->cpu.procs);
	if (n->cpu.cores < 0)
		return;
	strbuf_adds(sb, "; the process used ");
	why_add_amount(sb, n->cpu.cores);
	strbuf_adds(sb, " CPUs, so ");
	strbuf_adds(sb, n->cpu.procs > 0 && n->cpu.cores >= 0.8 * n->cpu.procs
				? "its own work takes them"
				: "other processes, or a quota, take them");
}

/* The kernel does not give its threads CPUs to run on. */
static bool is_starved(const struct why_numbers *n)
{
	return n->running >= STARVED_RUNNING && n->cpu.cores >= 0 && n->state != 'T' &&
	       n->cpu.cores < STARVED_CORES * n->running;
}

bool why_find_ready(const struct why_numbers *n, struct draft *d)
{
	double could = n->ready + n->running;
	bool waits = n->ready >= READY_COUNT && n->ready >= READY_PART * could;

	if (!waits && !is_starved(n))
		return false;
	strbuf_adds(&d->sentence, "Short of CPU: ");
	if (waits) {
		why_add_goroutines(&d->sentence, n->ready);
		strbuf_adds(&d->sentence, " wait for a CPU, ");
		why_add_share(&d->sentence, n->ready / could);
		strbuf_adds(&d->sentence, " of the time in which they could run");
	} else {
		strbuf_adds(&d->sentence, "threads of the process wait for a CPU: ");
		why_add_goroutines(&d->sentence, n->running);
		strbuf_adds(&d->sentence, " in the state running got ");
		why_add_amount(&d->sentence, n->cpu.cores);
		strbuf_adds(&d->sentence, " CPUs");
	}
	add_why_not(&d->evidence, n);
	strbuf_addf(&d->next, "gospect record %s -d 10 --on-cpu -o cpu.html", n->target);
	return true;
}

bool why_find_steal(const struct why_numbers *n, struct draft *d)
{
	if (n->cpu.steal < STEAL_PART)
		return false;
	d->severity = WHY_MINOR;
	strbuf_adds(&d->sentence, "Short of CPU: the host of this virtual machine took ");
	why_add_share(&d->sentence, n->cpu.steal);
	strbuf_adds(&d->sentence, " of its CPU time (steal)");
	strbuf_adds(&d->evidence, "/proc/stat of the machine");
	strbuf_adds(&d->next, "vmstat 1");
	return true;
}

/* ---- short of memory ---- */

static void add_heap(struct strbuf *sb, const struct why_memory *m)
{
	if (!m->heap_live)
		return;
	strbuf_adds(sb, "the heap has ");
	why_add_bytes(sb, m->heap_live);
	if (m->heap_limit) {
		strbuf_adds(sb, ", GOMEMLIMIT is ");
		why_add_bytes(sb, m->heap_limit);
	}
}

bool why_find_gc(const struct why_numbers *n, struct draft *d)
{
	if (n->cpu.gc < GC_PART || !is_busy(n))
		return false;
	d->severity = n->cpu.gc >= GC_GRAVE_PART ? WHY_SERIOUS : WHY_MINOR;
	strbuf_adds(&d->sentence, "Short of memory: garbage collection (GC) takes ");
	why_add_share(&d->sentence, n->cpu.gc);
	strbuf_adds(&d->sentence, " of the CPU time");
	if (n->cpu.gc_rate >= 0) {
		strbuf_adds(&d->evidence, "");
		why_add_amount(&d->evidence, n->cpu.gc_rate);
		strbuf_adds(&d->evidence, " collections a second; ");
	}
	add_heap(&d->evidence, &n->memory);
	if (n->memory.heap_live)
		strbuf_adds(&d->evidence, "; ");
	strbuf_adds(&d->evidence, "allocate less, or raise GOGC or GOMEMLIMIT");
	draft_command(d, n, "heap --kind allocs --live 10");
	return true;
}

bool why_find_limit(const struct why_numbers *n, struct draft *d)
{
	const struct why_memory *m = &n->memory;
	bool group = m->group_limit && m->group_used >= LIMIT_PART * m->group_limit;
	bool heap = m->heap_limit && m->heap_live >= LIMIT_PART * m->heap_limit;

	if (!group && !heap)
		return false;
	d->severity = group ? WHY_CRITICAL : WHY_SERIOUS;
	strbuf_adds(&d->sentence, "Short of memory: ");
	strbuf_adds(&d->sentence, group ? "the control group uses " : "the heap has ");
	why_add_share(&d->sentence, group ? (double)m->group_used / m->group_limit
					  : (double)m->heap_live / m->heap_limit);
	strbuf_adds(&d->sentence, group ? " of its limit; beyond it the kernel kills a process"
					: " of GOMEMLIMIT");
	if (group) {
		strbuf_adds(&d->evidence, "the limit is ");
		why_add_bytes(&d->evidence, m->group_limit);
		strbuf_adds(&d->evidence, ", the process has ");
		why_add_bytes(&d->evidence, m->rss[1]);
		strbuf_adds(&d->evidence, m->heap_live ? "; " : "");
	}
	add_heap(&d->evidence, m);
	draft_command(d, n, "heap");
	return true;
}

static void add_growth(struct strbuf *sb, const struct why_memory *m)
{
	strbuf_adds(sb, "the resident memory grew from ");
	why_add_bytes(sb, m->rss[0]);
	strbuf_adds(sb, " to ");
	why_add_bytes(sb, m->rss[1]);
	strbuf_adds(sb, "; ");
}

bool why_find_growth(const struct why_numbers *n, struct draft *d)
{
	const struct why_memory *m = &n->memory;
	double growth = (double)m->rss[1] - (double)m->rss[0];

	if (!m->rss[0] || n->seconds <= 0 || growth < GROWTH_BYTES)
		return false;
	if (growth < (m->grown ? GROWTH_PART : GROWTH_PART_UNKNOWN) * m->rss[0] ||
	    (m->grown && m->grown_part < GROWN_PART))
		return false;
	strbuf_adds(&d->sentence, m->grown ? "Short of memory: an unbounded queue or cache: "
					   : "Perhaps leaking: ");
	strbuf_adds(&d->sentence, "memory grows by ");
	why_add_bytes(&d->sentence, growth / n->seconds);
	strbuf_adds(&d->sentence, " a second");
	add_growth(&d->evidence, m);
	draft_command(d, n, "heap");
	if (!m->grown) {
		d->severity = WHY_MINOR;
		strbuf_adds(&d->evidence, "by which function is not known: the program keeps no "
					  "heap profile, or collected no garbage meanwhile");
		return true;
	}
	strbuf_adds(&d->sentence, ", allocated in ");
	why_add_function(&d->sentence, m->grown);
	why_add_share(&d->evidence, m->grown_part);
	strbuf_adds(&d->evidence, " of what more is in use after collections was allocated there");
	return true;
}
