#include "cli/report_machine.h"

#include <gospect/machine.h>
#include <json-c/json.h>

#include "base/strbuf.h"
#include "cli/report_machine_json.h"
#include "cli/report_rows.h"
#include "cli/report_wakers.h"
#include "cli/terminal.h"

/* A program whose goroutines, when they run, have a CPU for less than this share of the time. The
 * time of one P out of a hundred is too little to say so. */
#define STARVED 0.8
#define STARVED_LEAST 0.01

/* Less steal than this percentage is not worth a line of the summary. */
#define LEAST_STEAL 1

/* A part of the text while its rows are written. */
struct part {
	FILE *out;
	size_t rows;
};

static size_t shown(const struct part *p, size_t count)
{
	return p->rows && p->rows < count ? p->rows : count;
}

static void end_part(const struct part *p, size_t count)
{
	const struct report_rows rows = {.limit = p->rows, .out = p->out, .count = count};

	report_rows_end(&rows);
	fputc('\n', p->out);
}

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * part / whole : 0;
}

static void add_id(struct strbuf *line, const struct gospect_machine_goroutine *g)
{
	strbuf_addf(line, "goroutine %lu", g->id);
	if (*g->function)
		strbuf_addf(line, " (%s)", g->function);
}

static void add_place(struct strbuf *line, const char *word,
		      const struct gospect_machine_goroutine *g)
{
	const struct gospect_frame *frame = cause_frame(g->stack);

	if (frame && frame->line)
		strbuf_addf(line, "%s %s:%d", word, frame->function, frame->line);
	else if (frame)
		strbuf_addf(line, "%s %s", word, frame->function);
}

/* "goroutine 7 (main.work) in main.spin:12" */
static void add_goroutine(struct strbuf *line, const struct gospect_machine_goroutine *g)
{
	add_id(line, g);
	add_place(line, " in", g);
}

/* ---- Ps ---- */

static void print_shares(const char *name, const struct gospect_machine_processor *p, FILE *out)
{
	uint64_t all = p->running_ns + p->syscall_ns + p->scheduling_ns + p->idle_ns;

	terminal_line(out, "%6s %8.1f%% %8.1f%% %10.1f%% %8.1f%%", name,
		      percent(p->running_ns, all), percent(p->syscall_ns, all),
		      percent(p->scheduling_ns, all), percent(p->idle_ns, all));
}

static struct gospect_machine_processor sum_of(const struct gospect_machine_info *m)
{
	struct gospect_machine_processor sum = {0};

	for (size_t i = 0; i < m->processor_count; i++) {
		sum.running_ns += m->processors[i]->running_ns;
		sum.syscall_ns += m->processors[i]->syscall_ns;
		sum.scheduling_ns += m->processors[i]->scheduling_ns;
		sum.idle_ns += m->processors[i]->idle_ns;
	}
	return sum;
}

static void print_processors(const struct gospect_machine_info *m, const struct part *p)
{
	const struct gospect_machine_processor sum = sum_of(m);
	char name[16];

	terminal_line(p->out, "%6s %9s %9s %11s %9s", "P", "RUNNING", "SYSCALL", "SCHEDULING",
		      "IDLE");
	print_shares("all", &sum, p->out);
	for (size_t i = 0; i < shown(p, m->processor_count); i++) {
		snprintf(name, sizeof(name), "%u", m->processors[i]->id);
		print_shares(name, m->processors[i], p->out);
	}
	end_part(p, m->processor_count);
}

/* ---- the kernel ---- */

/* By CPU samples. */
static void print_cpu_users(const struct gospect_machine_info *m, FILE *out)
{
	char t[2][16];

	for (size_t i = 0; i < m->cpu_user_count; i++) {
		const struct gospect_running_function *f = &m->cpu_users[i];

		if (m->cpu_ns)
			terminal_line(out, "%9s ±%s: %s, %lu samples", report_time(f->ns, t[0]),
				      report_time(f->error_ns, t[1]), f->function, f->samples);
		else
			terminal_line(out, "%8.1f%% of samples: %s, %lu samples",
				      percent(f->samples, m->sample_count), f->function,
				      f->samples);
	}
	if (m->cpu_user_count)
		fputc('\n', out);
}

static void print_kernel(const struct gospect_machine_info *m, FILE *out)
{
	char t[3][16];

	if (!m->kernel_ns)
		return;
	terminal_line(out, "CPU OF THE MACHINE");
	terminal_line(out, "%9s of CPU time in %s; Ps ran goroutines for %s of the trace",
		      report_time(m->cpu_ns, t[0]), report_time(m->kernel_ns, t[1]),
		      report_time(sum_of(m).running_ns, t[2]));
	terminal_line(out, "%8.1f%% steal: the hypervisor ran others on a needed CPU",
		      percent(m->steal_ns, m->machine_ns));
	if (m->periods)
		terminal_line(out,
			      "%9s throttled by the CPU quota, all threads together, in %lu of %lu "
			      "periods",
			      report_time(m->throttled_ns, t[0]), m->throttled_periods, m->periods);
	fputc('\n', out);
}

/* ---- stops of the world ---- */

static void print_stop(const struct gospect_machine_stop *s, FILE *out)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	char t[3][16];

	strbuf_addf(&line, "%9s %9s%c %9s  %s by ", report_time(s->duration_ns, t[0]),
		    report_time(s->stopping_ns, t[1]), s->is_incomplete ? '+' : ' ',
		    report_time(s->begin_ns, t[2]), *s->reason ? s->reason : "unknown reason");
	if (s->by)
		add_goroutine(&line, s->by);
	else
		strbuf_adds(&line, "no goroutine");
	terminal_write_line(&line, out);
	if (!s->given_up)
		return;
	strbuf_addf(&line, "%33s last to stop, of %u: P %u, ", "", s->given_up, s->last_p);
	if (s->last)
		add_goroutine(&line, s->last);
	else
		strbuf_adds(&line, "without a goroutine");
	terminal_write_line(&line, out);
}

static void print_stops(const struct gospect_machine_info *m, const struct part *p)
{
	terminal_line(p->out, "%9s %9s  %9s  STOPS OF THE WORLD", "DURATION", "TO STOP", "AT");
	for (size_t i = 0; i < shown(p, m->stop_count); i++)
		print_stop(m->stops[i], p->out);
	end_part(p, m->stop_count);
}

/* ---- waits for a P ---- */

static void print_buckets(const struct gospect_machine_info *m, FILE *out)
{
	enum { WIDTH = 50 };
	static const char bar[WIDTH + 1] = "##################################################";
	uint64_t most = 1;
	char time[16];

	for (size_t i = 0; i < m->bucket_count; i++)
		most = m->buckets[i]->count > most ? m->buckets[i]->count : most;
	for (size_t i = 0; i < m->bucket_count; i++)
		terminal_line(out, "%9s %9lu  %.*s", report_time(m->buckets[i]->below_ns, time),
			      m->buckets[i]->count,
			      (int)((m->buckets[i]->count * WIDTH + most - 1) / most), bar);
}

static void print_cause(const struct gospect_machine_wait *w, FILE *out)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	char time[16];

	strbuf_addf(&line, "%23s ", "");
	if (w->holder) {
		add_id(&line, w->holder);
		strbuf_addf(&line, " had P %u for %s of it", w->p, report_time(w->holder_ns, time));
		add_place(&line, ", until", w->holder);
	} else {
		strbuf_addf(&line, "no goroutine had P %u", w->p);
	}
	if (w->stopped_ns)
		strbuf_addf(&line, "; the world was stopped for %s",
			    report_time(w->stopped_ns, time));
	terminal_write_line(&line, out);
}

static void print_waits(const struct gospect_machine_info *m, const struct part *p)
{
	char t[5][16];

	terminal_line(p->out, "%9s %9s  WAITS FOR A P", "BELOW", "COUNT");
	print_buckets(m, p->out);
	terminal_line(p->out, "%lu waits: p50 %s, p90 %s, p99 %s, longest %s", m->wait_count,
		      report_time(m->wait_p50_ns, t[0]), report_time(m->wait_p90_ns, t[1]),
		      report_time(m->wait_p99_ns, t[2]), report_time(m->wait_max_ns, t[3]));
	fputc('\n', p->out);
	terminal_line(p->out, "%9s %9s  LONGEST WAITS FOR A P", "WAIT", "AT");
	for (size_t i = 0; i < shown(p, m->longest_count); i++) {
		_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
		const struct gospect_machine_wait *w = m->longest[i];

		strbuf_addf(&line, "%9s %9s  %s: ", report_time(w->duration_ns, t[0]),
			    report_time(w->begin_ns, t[1]), w->why);
		add_goroutine(&line, w->goroutine);
		terminal_write_line(&line, p->out);
		print_cause(w, p->out);
	}
	fputc('\n', p->out);
}

/* ---- calls by stack ---- */

static void print_calls(const struct gospect_machine_calls *const *calls, size_t count,
			const struct part *p, const char *heading)
{
	char t[3][16];

	if (!count)
		return;
	terminal_line(p->out, "%9s %9s %9s %9s %9s  %s", "TIME", "COUNT", "AVERAGE", "LONGEST",
		      "LOST P", heading);
	for (size_t i = 0; i < shown(p, count); i++) {
		_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
		const struct gospect_machine_calls *c = calls[i];
		const struct gospect_frame *frame = cause_frame(c->stack);

		strbuf_addf(&line, "%9s %9lu %9s %9s %9lu  ", report_time(c->total_ns, t[0]),
			    c->count, report_time(c->total_ns / c->count, t[1]),
			    report_time(c->longest_ns, t[2]), c->lost);
		strbuf_addf(&line, "%s%s", c->name, *c->name ? " in " : "");
		if (frame)
			strbuf_addf(&line, "%s:%d", frame->function, frame->line);
		else
			strbuf_adds(&line, "(none)");
		terminal_write_line(&line, p->out);
	}
	end_part(p, count);
}

/* ---- the collector ---- */

static void print_collector(const struct gospect_machine_info *m, const struct part *p)
{
	uint64_t whole = 0;
	char t[6][16];

	for (size_t i = 0; i < m->processor_count; i++)
		whole += m->duration_ns;
	terminal_line(p->out, "COLLECTOR");
	terminal_line(p->out, "%9zu cycles in %s of %s", m->cycle_count,
		      report_time(m->cycles_ns, t[0]), report_time(m->duration_ns, t[1]));
	terminal_line(p->out,
		      "%9s of workers (%.1f%% of all Ps): dedicated %s, fractional %s, idle %s",
		      report_time(m->dedicated_ns + m->fractional_ns + m->idle_worker_ns, t[0]),
		      percent(m->dedicated_ns + m->fractional_ns + m->idle_worker_ns, whole),
		      report_time(m->dedicated_ns, t[1]), report_time(m->fractional_ns, t[2]),
		      report_time(m->idle_worker_ns, t[3]));
	terminal_line(p->out, "%9s of assists, %lu times", report_time(m->assists_ns, t[0]),
		      m->assist_count);
	terminal_line(p->out, "%9s of sweeping, %.1f MB", report_time(m->sweep_ns, t[0]),
		      m->swept_bytes / 1e6);
	if (m->heap_max_bytes)
		terminal_line(p->out, "%6.1f MB of heap at most, the last goal was %.1f MB",
			      m->heap_max_bytes / 1e6, m->heap_goal_bytes / 1e6);
	fputc('\n', p->out);
	print_calls(m->assists, m->assist_stack_count, p, "ASSISTS OF THE COLLECTOR");
}

static const char *phase_time(const struct gospect_machine_stop *s, char time[16])
{
	return s ? report_time(s->duration_ns, time) : "?";
}

static void print_cycle(const struct gospect_machine_cycle *c, FILE *out)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	const struct gospect_machine_stop *first = c->sweep_termination;
	char t[5][16];

	strbuf_addf(&line, "%9s%c %9s %9s %9s %9s  ", report_time(c->duration_ns, t[0]),
		    c->is_cut ? '+' : ' ', report_time(c->begin_ns, t[1]), phase_time(first, t[2]),
		    c->mark_ns ? report_time(c->mark_ns, t[3]) : "?",
		    phase_time(c->mark_termination, t[4]));
	if (first && first->by)
		add_goroutine(&line, first->by);
	terminal_write_line(&line, out);
}

/* A stop before marking, and one after it. */
static void print_cycles(const struct gospect_machine_info *m, const struct part *p)
{
	if (!m->cycle_count)
		return;
	terminal_line(p->out, "%9s  %9s %9s %9s %9s  CYCLES OF THE COLLECTOR, BEGUN BY", "DURATION",
		      "AT", "STOP", "MARK", "STOP");
	for (size_t i = 0; i < shown(p, m->cycle_count); i++)
		print_cycle(m->cycles[i], p->out);
	end_part(p, m->cycle_count);
}

/* ---- all of it ---- */

static void write_text(const struct gospect_machine_info *m, const struct part *p)
{
	char time[16];

	terminal_line(p->out, "%s, GOMAXPROCS %lu", report_time(m->duration_ns, time),
		      m->gomaxprocs ? m->gomaxprocs : m->processor_count);
	fputc('\n', p->out);
	print_processors(m, p);
	print_kernel(m, p->out);
	print_cpu_users(m, p->out);
	print_stops(m, p);
	print_waits(m, p);
	print_collector(m, p);
	print_cycles(m, p);
	print_calls(m->syscalls, m->syscall_stack_count, p, "SYSTEM CALLS");
}

/* Goroutines that run and get no CPU wait for the machine: behind other programs, or throttled. */
static void write_starved(const struct gospect_machine_info *m, uint64_t running_ns, FILE *out)
{
	double running = m->duration_ns ? (double)running_ns / m->duration_ns : 0;
	double got = m->kernel_ns ? (double)m->cpu_ns / m->kernel_ns : running;
	char t[16];

	if (got < STARVED * running && running > STARVED_LEAST)
		terminal_line(out,
			      "  goroutines ran for %s, with a CPU for %.0f%% of it: their threads "
			      "waited for the machine",
			      report_time(running_ns, t), 100 * got / running);
}

static void write_short(const struct gospect_machine_info *m, FILE *out)
{
	const struct gospect_machine_processor sum = sum_of(m);
	uint64_t all = sum.running_ns + sum.syscall_ns + sum.scheduling_ns + sum.idle_ns;
	char t[4][16];

	fputc('\n', out);
	terminal_line(out, "MACHINE (--by machine has the details)");
	terminal_line(out, "  %zu Ps, %.1f%% in use; collector: %zu cycles, assists %s",
		      m->processor_count, percent(all - sum.idle_ns, all), m->cycle_count,
		      report_time(m->assists_ns, t[0]));
	write_starved(m, sum.running_ns, out);
	if (m->throttled_periods)
		terminal_line(out, "  throttled by the CPU quota in %lu of %lu periods, for %s",
			      m->throttled_periods, m->periods, report_time(m->throttled_ns, t[0]));
	if (percent(m->steal_ns, m->machine_ns) >= LEAST_STEAL)
		terminal_line(out, "  %.1f%% steal: the hypervisor ran others on a needed CPU",
			      percent(m->steal_ns, m->machine_ns));
	if (m->stop_count)
		terminal_line(out, "  %zu stops of the world, %s; the longest: %s for %s",
			      m->stop_count, report_time(m->stops_ns, t[0]),
			      report_time(m->stops[0]->duration_ns, t[1]), m->stops[0]->reason);
	terminal_line(out, "  %lu waits for a P: p50 %s, p99 %s, longest %s", m->wait_count,
		      report_time(m->wait_p50_ns, t[0]), report_time(m->wait_p99_ns, t[1]),
		      report_time(m->wait_max_ns, t[2]));
	terminal_line(out, "  %lu system calls, %s", m->syscall_count,
		      report_time(m->syscalls_ns, t[0]));
}

struct error *report_write_machine(const struct report_file *file, enum report_machine_form form,
				   size_t rows, FILE *out)
{
	const struct gospect_machine_options how = {
		.size = sizeof(how),
		.name = file->path,
		.remark = form == REPORT_MACHINE_SHORT ? NULL : say_remark,
	};
	const struct part part = {out, rows};
	struct gospect_machine *m = NULL;
	struct error *err =
		report_file_error(file, library_error(gospect_machine_read(file->bytes, file->size,
									   &how, &m)));

	if (err)
		return err;
	if (form == REPORT_MACHINE_JSON)
		report_write_machine_json(gospect_machine_info(m), rows, out);
	else if (form == REPORT_MACHINE_TEXT)
		write_text(gospect_machine_info(m), &part);
	else
		write_short(gospect_machine_info(m), out);
	gospect_machine_destroy(m);
	return NULL;
}
