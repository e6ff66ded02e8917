#include "cli/record_many.h"

#include <errno.h>
#include <gospect/confine.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/command.h"
#include "cli/no_match.h"
#include "cli/output_options.h"
#include "cli/record_targets.h"
#include "cli/record_worker.h"
#include "cli/stop.h"

enum { MAX_TARGETS = TARGETS_MOST, MAX_NOTES = 64, MAX_NOTE = 512 };

/* How much longer than requested a worker may take, also to end. */
#define PATIENCE_NS 60000000000ull
#define LOOK_MS 100
/* How often later processes are looked for, and that takes 1 / SCAN_SHARE of a core at most. */
#define SCAN_NS 250000000ull
#define SCAN_SHARE 200
/* Of all profiles. */
#define MOST_BYTES (1ull << 30)
/* A shorter rest is not recorded. */
#define LEAST_SECONDS 0.05
/* The library's smallest budget of one process, in percent. */
#define LEAST_BUDGET 0.01
/* A tick takes about 25 us, however little it reads: percent of a core for one tick a second. */
#define TICK_PERCENT 0.0025
/* The first read of a small process takes about a millisecond: percent of a core for one a second.
 */
#define FIRST_PERCENT 0.1
#define USUAL_RATE 100
/* With less, the first read of a process takes its budget for many seconds. */
#define SMALL_BUDGET 0.1
/* The least memory of a worker, on a machine with enough. */
#define LEAST_MEMORY (512ull << 20)

/* A remark of one or several workers. */
struct note {
	char text[MAX_NOTE];
	size_t count;
	size_t first; /* the first process with this remark */
};

struct bytes {
	char *data;
	size_t size, capacity;
};

/* A process that a worker records. */
struct part {
	pid_t pid;
	char name[64]; /* of its program */
	struct record_worker worker;
	double budget;    /* 0: it has ended */
	uint64_t late_ns; /* when it takes too long; 0: it has as long as it wants */
	struct bytes bytes;
	struct error *err;
};

struct many {
	const struct target_options *options;
	const struct gospect_record_options *recording;
	struct outfile *out;
	pid_t command; /* -- COMMAND; 0: none */
	struct record_targets targets;
	struct part *parts;
	size_t count, capacity;
	uint64_t all_bytes;
	struct note *notes;
	size_t note_count;
	struct gospect_profile *profile;
	struct many_summary summary;
	uint64_t began_ns, scan_ns, stopped_ns; /* 0: not stopped */
};

static void part_release(struct part *p)
{
	if (p->worker.result >= 0)
		close(p->worker.result);
	if (p->worker.stop >= 0)
		close(p->worker.stop);
	p->worker.result = p->worker.stop = -1;
	free(p->bytes.data);
	error_destroy(p->err);
}

static void many_release(struct many *m)
{
	for (size_t i = 0; i < m->count; i++)
		part_release(&m->parts[i]);
	free(m->parts);
	free(m->notes);
	record_targets_release(&m->targets);
	gospect_profile_destroy(m->profile);
}

static bool grows(const struct many *m)
{
	return record_targets_grow(m->options);
}

/* ---- starting ---- */

static double seconds_left(const struct many *m)
{
	return m->recording->duration - (clock_now() - m->began_ns) / 1e9;
}

static double whole_budget(const struct many *m)
{
	return m->recording->budget > 0 ? m->recording->budget : 1;
}

/* The budget is for all together. Where more may come, half of what is left is for these. */
static double budget_of_each(const struct many *m, size_t new)
{
	double left = whole_budget(m);

	for (size_t i = 0; i < m->count; i++)
		left -= m->parts[i].budget;
	return grows(m) ? fmax(left / 2 / new, LEAST_BUDGET) : left / new;
}

static struct error *must_check check_budget(const struct many *m, double each, size_t count)
{
	double all = whole_budget(m), seconds = m->recording->duration;

	if (all >= 100 || grows(m))
		return NULL;
	if (each < LEAST_BUDGET)
		return error_format(ERROR_FAILED,
				    "--budget %g is too small for %zu processes; use --budget %g",
				    all, count, LEAST_BUDGET * count);
	if (each < SMALL_BUDGET)
		say("the budget is %.2g %% of a core for each of %zu processes; --budget %.2g "
		    "samples them more often",
		    each, count, SMALL_BUDGET * count);
	if (seconds > 0 && count * FIRST_PERCENT / seconds > all)
		say("the first samples of %zu processes alone take about %.2g %% of a core in %g s, "
		    "more than --budget %g; record for longer (-d)",
		    count, count * FIRST_PERCENT / seconds, seconds, all);
	return NULL;
}

/* Where one process gets little, it has fewer ticks, so that each can read something. */
static struct gospect_record_options options_of(const struct many *m, double budget)
{
	struct gospect_record_options o = *m->recording;
	double rate = o.rate > 0 ? o.rate : USUAL_RATE;

	if (o.duration > 0)
		o.duration = fmax(seconds_left(m), LEAST_SECONDS);
	if (whole_budget(m) >= 100)
		return o;
	o.budget = budget;
	o.rate = fmin(budget / TICK_PERCENT, rate);
	return o;
}

static uint64_t memory_of_each(size_t count)
{
	uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / 2;

	return all / count > LEAST_MEMORY ? all / count : LEAST_MEMORY;
}

static struct error *must_check start(struct many *m, const struct record_target *t, double budget)
{
	const struct gospect_record_options each = options_of(m, budget);
	struct record_worker others[MAX_TARGETS];
	struct part new = {.pid = t->pid, .budget = budget};
	struct error *err;

	if (!array_reserve(&m->parts, &m->capacity, m->count + 1))
		return &error_no_memory;
	for (size_t i = 0; i < m->count; i++)
		others[i] = m->parts[i].worker;
	snprintf(new.name, sizeof(new.name), "%s", t->name);
	if (each.duration > 0)
		new.late_ns = clock_now() + each.duration * 1e9 + PATIENCE_NS;
	err = record_worker_start(&new.worker, t->pid, &each,
				  memory_of_each(m->count > m->targets.count ? m->count
									     : m->targets.count),
				  others, m->count, fileno(m->out->stream));
	if (!err)
		m->parts[m->count++] = new;
	return err;
}

static struct error *must_check start_new(struct many *m)
{
	struct error *err = NULL;
	size_t new = 0;
	double each;

	for (size_t i = 0; i < m->targets.count; i++)
		new += !m->targets.items[i].is_old;
	if (!new || m->stopped_ns)
		return NULL;
	each = budget_of_each(m, new);
	err = check_budget(m, each, new);
	fflush(NULL); /* otherwise a worker would inherit unwritten output */
	for (size_t i = 0; !err && i < m->targets.count; i++) {
		struct record_target *t = &m->targets.items[i];

		if (t->is_old)
			continue;
		t->is_old = true;
		if (m->count == MAX_TARGETS)
			m->targets.is_full = true;
		else
			err = start(m, t, each);
	}
	return err;
}

static struct error *must_check give_up_privilege(const struct many *m)
{
	const struct gospect_confine_options how = {.size = sizeof(how),
						    .child = m->command,
						    .output = output_handle(m->out),
						    .remark = say_remark,
						    .source = m->options->source};

	return library_error(gospect_confine(&how));
}

/* ---- what workers send: read with privilege, so nothing of it is understood here ---- */

static bool append(struct bytes *b, const void *from, size_t size)
{
	if (b->size + size > WORKER_MAX_BYTES ||
	    !array_reserve(&b->data, &b->capacity, b->size + size + 1))
		return false;
	if (size)
		memcpy(b->data + b->size, from, size);
	b->size += size;
	return true;
}

/* Whether it said that this is no Go program, or none any more. These are numbers alone. */
static bool is_no_target(const struct part *p)
{
	struct worker_head head;
	uint32_t code;

	for (size_t at = 0; p->bytes.size - at >= sizeof(head) + sizeof(code);) {
		memcpy(&head, p->bytes.data + at, sizeof(head));
		memcpy(&code, p->bytes.data + at + sizeof(head), sizeof(code));
		if (head.kind == WORKER_ERROR)
			return code == ERROR_NOT_GO || code == ERROR_GONE;
		if (head.size > p->bytes.size - at - sizeof(head))
			return false;
		at += sizeof(head) + head.size;
	}
	return false;
}

static void end_part(struct many *m, size_t i)
{
	struct part *p = &m->parts[i];

	close(p->worker.result);
	close(p->worker.stop);
	p->worker.result = p->worker.stop = -1;
	p->budget = 0;
	if (!grows(m) || !is_no_target(p))
		return;
	/* There may be many of these. */
	kill(p->worker.child, SIGKILL);
	waitpid(p->worker.child, NULL, 0);
	m->all_bytes -= p->bytes.size;
	part_release(p);
	m->parts[i] = m->parts[--m->count];
}

static void read_part(struct many *m, size_t i)
{
	static char piece[WORKER_MAX_FRAME];
	struct part *p = &m->parts[i];
	ssize_t n = read(p->worker.result, piece, sizeof(piece));

	if (n < 0 && errno == EINTR)
		return;
	m->all_bytes += n > 0 ? n : 0;
	if (n > 0 && m->all_bytes <= MOST_BYTES && append(&p->bytes, piece, n))
		return;
	if (n > 0)
		p->err = error_format(ERROR_CORRUPT, "its profile is too large");
	end_part(m, i);
}

static void end_late(struct many *m)
{
	uint64_t now = clock_now();

	for (size_t i = m->count; i-- > 0;) {
		struct part *p = &m->parts[i];
		uint64_t late = m->stopped_ns ? m->stopped_ns + PATIENCE_NS : p->late_ns;

		if (p->worker.result < 0 || !late || now < late)
			continue;
		p->err = error_format(ERROR_CORRUPT, "reading it takes too long");
		end_part(m, i);
	}
}

static size_t workers(const struct many *m)
{
	size_t count = 0;

	for (size_t i = 0; i < m->count; i++)
		count += m->parts[i].worker.result >= 0;
	return count;
}

/* ---- while they record ---- */

static void stop(struct many *m)
{
	if (m->stopped_ns)
		return;
	m->stopped_ns = clock_now();
	for (size_t i = 0; i < m->count; i++)
		if (m->parts[i].worker.stop >= 0)
			(void)!write(m->parts[i].worker.stop, "", 1);
}

static void show_progress(const struct many *m)
{
	double all = m->recording->duration, seconds = (clock_now() - m->began_ns) / 1e9;

	if (all > 0 && seconds < all)
		say_progress("%.0f of %g s, %zu processes", seconds, all, m->count);
	else if (all <= 0 && !m->stopped_ns)
		say_progress("%.0f s, %zu processes; Ctrl-C ends the recording", seconds, m->count);
}

static bool has_ended(pid_t command)
{
	siginfo_t info = {0};

	return !waitid(P_PID, command, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid;
}

/* Until it has ended, or with --children all have. */
static bool can_more_come(const struct many *m)
{
	if (!grows(m) || m->stopped_ns ||
	    (m->recording->duration > 0 && seconds_left(m) < LEAST_SECONDS))
		return false;
	return m->options->follow || !record_targets_are_gone(&m->targets);
}

static struct error *must_check look_for_more(struct many *m)
{
	uint64_t began = clock_now(), used = clock_cpu();
	struct error *err;

	if (!can_more_come(m) || began < m->scan_ns)
		return NULL;
	err = record_targets_scan(m->options, &m->targets);
	if (!err)
		err = start_new(m);
	used = (clock_cpu() - used) * SCAN_SHARE;
	m->scan_ns = began + (used > SCAN_NS ? used : SCAN_NS);
	return err;
}

static void wait_for_parts(struct many *m)
{
	struct pollfd fds[MAX_TARGETS];
	size_t count = m->count;

	for (size_t i = 0; i < count; i++)
		fds[i] = (struct pollfd){.fd = m->parts[i].worker.result, .events = POLLIN};
	if (poll(fds, count, LOOK_MS) <= 0)
		return;
	/* Backwards, as the last one takes the place of one that ends. */
	for (size_t i = count; i-- > 0;)
		if (fds[i].revents)
			read_part(m, i);
}

static struct error *must_check gather(struct many *m)
{
	struct error *err = start_new(m);

	while (!err && (workers(m) || can_more_come(m))) {
		if (stop_requested || (m->command && has_ended(m->command)))
			stop(m);
		err = look_for_more(m);
		show_progress(m);
		wait_for_parts(m);
		end_late(m);
	}
	say_progress(NULL);
	return err;
}

/* ---- the workers' results, without privilege ---- */

static void add_note(struct many *m, size_t process, const char *text, size_t length)
{
	struct note *note;

	length = length < MAX_NOTE - 1 ? length : MAX_NOTE - 1;
	for (size_t i = 0; i < m->note_count; i++) {
		note = &m->notes[i];
		if (strlen(note->text) == length && !memcmp(note->text, text, length)) {
			note->count++;
			return;
		}
	}
	if (m->note_count == MAX_NOTES)
		return;
	note = &m->notes[m->note_count++];
	memcpy(note->text, text, length);
	note->text[length] = '\0';
	note->count = 1;
	note->first = process;
}

static void say_notes(const struct many *m)
{
	for (size_t i = 0; i < m->note_count; i++) {
		const struct note *n = &m->notes[i];
		const struct part *p = &m->parts[n->first];

		if (n->count == 1)
			say("process %d (%s): %s", p->pid, p->name, n->text);
		else
			say("%zu of %zu processes: %s", n->count, m->count, n->text);
	}
}

/* Everything that one worker sent. */
struct handed {
	struct bytes profile;
	struct worker_numbers numbers;
	bool is_done;
};

static struct error *must_check error_of(const char *bytes, size_t size)
{
	uint32_t code;

	if (size < sizeof(code))
		return error_format(ERROR_CORRUPT, "its worker failed");
	memcpy(&code, bytes, sizeof(code));
	return error_format(code == ERROR_USAGE ? ERROR_USAGE : ERROR_FAILED, "%.*s",
			    (int)(size - sizeof(code)), bytes + sizeof(code));
}

static struct error *must_check take_frame(struct many *m, size_t process, struct handed *h,
					   const struct worker_head *head, const char *bytes)
{
	switch (head->kind) {
	case WORKER_REMARK:
		add_note(m, process, bytes, head->size);
		return NULL;
	case WORKER_ERROR:
		return error_of(bytes, head->size);
	case WORKER_NUMBERS:
		if (head->size == sizeof(h->numbers))
			memcpy(&h->numbers, bytes, sizeof(h->numbers));
		return NULL;
	case WORKER_PROFILE:
		return append(&h->profile, bytes, head->size) ? NULL : &error_no_memory;
	case WORKER_DONE:
		h->is_done = true;
		return NULL;
	}
	return error_format(ERROR_CORRUPT, "its worker failed");
}

static struct error *must_check take_frames(struct many *m, size_t process, struct handed *h,
					    const struct bytes *b)
{
	struct worker_head head;
	struct error *err = NULL;
	size_t at = 0;

	while (!err && b->size - at >= sizeof(head)) {
		memcpy(&head, b->data + at, sizeof(head));
		at += sizeof(head);
		if (head.size > WORKER_MAX_FRAME || head.size > b->size - at)
			break;
		err = take_frame(m, process, h, &head, b->data + at);
		at += head.size;
	}
	if (!err && !h->is_done)
		err = error_format(ERROR_CORRUPT, "its worker ended: its program or memory is "
						  "corrupt or hostile, or takes too much memory");
	return err;
}

static struct error *must_check add_profile(struct many *m, const struct part *p,
					    const struct handed *h)
{
	struct gospect_profile *from = NULL;
	char name[sizeof(p->name) + 32], pid[16];
	const struct gospect_label labels[] = {{"command", p->name}, {"pid", pid}};
	struct error *err =
		library_error(gospect_profile_read(h->profile.data, h->profile.size, &from));

	snprintf(pid, sizeof(pid), "%d", p->pid);
	snprintf(name, sizeof(name), "%s (pid %d)", p->name, p->pid);
	if (!err)
		err = library_error(
			gospect_profile_add(m->profile, name, labels, ARRAY_SIZE(labels), from));
	gospect_profile_destroy(from);
	return err;
}

static void handed_release(struct handed *h)
{
	free(h->profile.data);
}

static struct error *must_check take_part(struct many *m, size_t i)
{
	_cleanup_(handed_release) struct handed h = {0};
	struct part *p = &m->parts[i];
	struct error *err = take_ptr(p->err);

	if (!err)
		err = take_frames(m, i, &h, &p->bytes);
	free(take_ptr(p->bytes.data));
	if (!err)
		err = add_profile(m, p, &h);
	if (!err) {
		m->summary.processes++;
		m->summary.goroutines += h.numbers.goroutines;
		m->summary.cpu_percent += h.numbers.cpu_percent;
	}
	return err;
}

static struct error *must_check none_recorded(const struct many *m)
{
	const char *name = m->options->follow;

	if (m->count)
		return error_format(ERROR_FAILED, "none of %zu processes could be recorded",
				    m->count);
	if (name)
		return error_format(ERROR_NOT_GO, "no Go process named '%s' ran", name);
	return error_format(ERROR_NOT_GO, "the target is not a Go program, and it started none");
}

/* Wrong options apply to all processes. */
static struct error *must_check take_parts(struct many *m)
{
	for (size_t i = 0; i < m->count; i++) {
		struct error *err = take_part(m, i);

		if (err && (err->code == ERROR_USAGE || err->code == ERROR_NO_MEMORY))
			return err;
		if (err)
			say("process %d (%s) is left out: %s", m->parts[i].pid, m->parts[i].name,
			    err->message);
		error_destroy(err);
	}
	return m->summary.processes ? NULL : none_recorded(m);
}

/* ---- all ---- */

static struct error *must_check begin(struct many *m)
{
	struct error *err = NULL;
	char title[64];

	if (m->options->command)
		err = command_start(m->options->command, NULL, &m->command);
	if (!err)
		err = record_targets_find(m->options, m->command, &m->targets);
	m->notes = calloc(MAX_NOTES, sizeof(*m->notes));
	snprintf(title, sizeof(title), "%zu processes", m->targets.count);
	if (!err)
		err = library_error(
			gospect_profile_create(grows(m) ? "processes" : title, &m->profile));
	if (!err && !m->notes)
		err = &error_no_memory;
	if (!err && m->options->follow && !m->targets.count)
		say("waiting for a process named '%s'", m->options->follow);
	m->began_ns = clock_now();
	return err;
}

static struct error *must_check record(struct many *m)
{
	struct error *err = begin(m);

	if (!err)
		err = gather(m);
	if (m->targets.is_full)
		say("some processes are left out: gospect records at most %d", MAX_TARGETS);
	if (!err)
		err = give_up_privilege(m);
	if (!err)
		err = take_parts(m);
	if (err)
		return err;
	say_notes(m);
	if (!gospect_profile_info(m->profile)->samples && filter_is_set(m->recording->filter))
		return error_format(ERROR_FAILED,
				    "no goroutine of %zu processes matches the filter",
				    m->summary.processes);
	return NULL;
}

struct error *record_many(const struct target_options *o,
			  const struct gospect_record_options *recording, struct outfile *out,
			  struct gospect_profile **ret, struct many_summary *ret_summary)
{
	_cleanup_(many_release) struct many m = {.options = o, .recording = recording, .out = out};
	struct error *err = record(&m);

	m.summary.command = m.command;
	*ret_summary = m.summary;
	if (!err)
		*ret = take_ptr(m.profile);
	return err;
}

void record_many_say(const struct gospect_profile *profile, const struct many_summary *s,
		     const char *path)
{
	const struct gospect_profile_info *p = gospect_profile_info(profile);
	const char *arrow = path ? " -> " : "";
	char samples[32], cost[64] = "";

	if (prints_all_numbers())
		snprintf(cost, sizeof(cost), ", gospect used %.1f %% of a core", s->cpu_percent);
	say("%.1f s, %zu processes, %.0f goroutines, %s samples%s%s%s", p->duration_ns / 1e9,
	    s->processes, s->goroutines, count_text(p->samples, samples), cost, arrow, path ?: "");
}
