#include "cli/record_many.h"

#include <errno.h>
#include <gospect/confine.h>
#include <gospect/processes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/find.h"
#include "cli/no_match.h"
#include "cli/output_options.h"
#include "cli/process_file.h"
#include "cli/record_worker.h"
#include "cli/stop.h"

enum { MAX_TARGETS = TARGETS_MOST, MAX_NOTES = 64, MAX_NOTE = 512 };

/* How much longer than requested a worker may take, also to end. */
#define PATIENCE_NS 60000000000ull
#define LOOK_MS 100
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

struct process {
	pid_t pid;
	char name[64]; /* of its program */
};

/* A remark of one or several workers. */
struct note {
	char text[MAX_NOTE];
	size_t count;
	size_t first; /* the first process with this remark */
};

struct many {
	struct process *processes;
	struct record_worker *workers; /* as many as were started */
	size_t count, capacity, started, left_out;
	struct note *notes;
	size_t note_count;
	struct gospect_profile *profile;
	struct many_summary summary;
	double duration;
	uint64_t began_ns, stopped_ns; /* 0: not stopped */
};

static void many_release(struct many *m)
{
	for (size_t i = 0; i < m->started; i++) {
		close(m->workers[i].result);
		close(m->workers[i].stop);
	}
	gospect_profile_destroy(m->profile);
	free(m->processes);
	free(m->workers);
	free(m->notes);
}

bool record_many_is(const struct target_options *o)
{
	return o->host || o->more_count;
}

/* ---- the processes ---- */

static struct error *must_check add_process(struct many *m, pid_t pid, const char *name)
{
	struct process *p;

	for (size_t i = 0; i < m->count; i++)
		if (m->processes[i].pid == pid)
			return NULL;
	if (m->count == MAX_TARGETS) {
		m->left_out++;
		return NULL;
	}
	if (!array_reserve(&m->processes, &m->capacity, m->count + 1))
		return &error_no_memory;
	p = &m->processes[m->count++];
	*p = (struct process){.pid = pid};
	snprintf(p->name, sizeof(p->name), "%s", name);
	return NULL;
}

static int note_process(void *arg, const struct gospect_go_process *p)
{
	return error_dropped(add_process(arg, p->pid, p->name));
}

static struct error *must_check find_host(struct many *m)
{
	const struct gospect_processes_options how = {.size = sizeof(how),
						      .cancel = stop_cancel,
						      .remark = say_remark};
	struct error *err = library_error(gospect_processes_each(&how, note_process, m, NULL));

	if (!err && !m->count)
		err = error_format(ERROR_FAILED, "gospect can read no Go process of this machine");
	return err;
}

static struct error *must_check find_word(struct many *m, const char *word, const char *verb)
{
	_cleanup_free_ char *name = NULL;
	pid_t pid;
	struct error *err = find_target(word, verb, &pid);

	if (!err)
		err = process_file_name(pid, &name);
	return err ? err : add_process(m, pid, name);
}

static struct error *must_check find_processes(struct many *m, const struct target_options *o)
{
	struct error *err = o->host ? find_host(m) : find_word(m, o->word, o->verb);

	for (size_t i = 0; !err && i < o->more_count; i++)
		err = find_word(m, o->more[i], o->verb);
	if (!err && m->left_out)
		say("%zu processes are left out: gospect records %d at most", m->left_out,
		    MAX_TARGETS);
	return err;
}

/* ---- starting ---- */

/* The budget is for all together. Where one process gets little, it has fewer ticks, so that each
 * can read something. */
static struct error *must_check share_budget(const struct many *m, struct gospect_record_options *o)
{
	double all = o->budget > 0 ? o->budget : 1, rate = o->rate > 0 ? o->rate : USUAL_RATE;

	if (all >= 100)
		return NULL;
	o->budget = all / m->count;
	if (o->budget < LEAST_BUDGET)
		return error_format(ERROR_FAILED,
				    "--budget %g is too small for %zu processes; use --budget %g",
				    all, m->count, LEAST_BUDGET * m->count);
	if (o->budget < SMALL_BUDGET)
		say("the budget is %.2g %% of a core for each of %zu processes; --budget %.2g "
		    "samples them more often",
		    o->budget, m->count, SMALL_BUDGET * m->count);
	if (o->duration > 0 && m->count * FIRST_PERCENT / o->duration > all)
		say("the first samples of %zu processes alone take about %.2g %% of a core in %g s, "
		    "more than --budget %g; record for longer (-d)",
		    m->count, m->count * FIRST_PERCENT / o->duration, o->duration, all);
	o->rate = o->budget / TICK_PERCENT < rate ? o->budget / TICK_PERCENT : rate;
	return NULL;
}

static uint64_t memory_of_each(const struct many *m)
{
	uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / 2;

	return all / m->count > LEAST_MEMORY ? all / m->count : LEAST_MEMORY;
}

static struct error *must_check start_workers(struct many *m,
					      const struct gospect_record_options *recording,
					      const struct outfile *out)
{
	struct gospect_record_options each = *recording;
	struct error *err = share_budget(m, &each);

	m->workers = calloc(m->count, sizeof(*m->workers));
	m->notes = calloc(MAX_NOTES, sizeof(*m->notes));
	if (!err && (!m->workers || !m->notes))
		err = &error_no_memory;
	fflush(NULL); /* otherwise a worker would inherit unwritten output */
	for (size_t i = 0; !err && i < m->count; i++) {
		err = record_worker_start(&m->workers[i], m->processes[i].pid, &each,
					  memory_of_each(m), m->workers, i, fileno(out->stream));
		m->started += !err;
	}
	m->duration = recording->duration;
	m->began_ns = clock_now();
	return err;
}

static struct error *must_check give_up_privilege(const struct target_options *target,
						  struct outfile *out)
{
	const struct gospect_confine_options how = {.size = sizeof(how),
						    .output = output_handle(out),
						    .remark = say_remark,
						    .source = target->source};

	return library_error(gospect_confine(&how));
}

/* ---- the workers' results ---- */

struct bytes {
	char *data;
	size_t size, capacity;
};

static void bytes_release(struct bytes *b)
{
	free(b->data);
}
#define _cleanup_bytes_ _cleanup_(bytes_release)

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
		const struct process *p = &m->processes[n->first];

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

static void tell_to_stop(struct many *m)
{
	if (m->stopped_ns || !stop_requested)
		return;
	m->stopped_ns = clock_now();
	for (size_t i = 0; i < m->started; i++)
		(void)!write(m->workers[i].stop, "", 1);
}

static bool is_late(const struct many *m)
{
	uint64_t now = clock_now();

	if (m->stopped_ns)
		return now - m->stopped_ns > PATIENCE_NS;
	return m->duration > 0 && now - m->began_ns > m->duration * 1e9 + PATIENCE_NS;
}

static void show_progress(const struct many *m)
{
	double seconds = (clock_now() - m->began_ns) / 1e9;

	if (m->duration > 0 && seconds < m->duration)
		say_progress("%.0f of %g s, %zu processes", seconds, m->duration, m->count);
	else if (m->duration <= 0 && !m->stopped_ns)
		say_progress("%.0f s, %zu processes; Ctrl-C ends the recording", seconds, m->count);
}

/* Reads until the worker has closed its pipe. */
static struct error *must_check read_worker(struct many *m, int fd, struct bytes *b)
{
	static char piece[WORKER_MAX_FRAME];

	for (;;) {
		struct pollfd look = {.fd = fd, .events = POLLIN};
		ssize_t n = poll(&look, 1, LOOK_MS) > 0 ? read(fd, piece, sizeof(piece)) : -1;

		tell_to_stop(m);
		show_progress(m);
		if (!n)
			return NULL;
		if (n > 0 && !append(b, piece, n))
			return error_format(ERROR_CORRUPT, "its profile is too large");
		if (is_late(m))
			return error_format(ERROR_CORRUPT, "reading it takes too long");
	}
}

static struct error *must_check add_profile(struct many *m, const struct process *p,
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
	bytes_release(&h->profile);
}

static struct error *must_check take_process(struct many *m, size_t i)
{
	_cleanup_(handed_release) struct handed h = {0};
	_cleanup_bytes_ struct bytes b = {0};
	struct error *err = read_worker(m, m->workers[i].result, &b);

	if (!err)
		err = take_frames(m, i, &h, &b);
	if (!err)
		err = add_profile(m, &m->processes[i], &h);
	if (!err) {
		m->summary.processes++;
		m->summary.goroutines += h.numbers.goroutines;
		m->summary.cpu_percent += h.numbers.cpu_percent;
	}
	return err;
}

/* Wrong options apply to all processes. */
static struct error *must_check take_processes(struct many *m)
{
	for (size_t i = 0; i < m->count; i++) {
		struct error *err = take_process(m, i);

		if (err && (err->code == ERROR_USAGE || err->code == ERROR_NO_MEMORY))
			return err;
		if (err)
			say("process %d (%s) is left out: %s", m->processes[i].pid,
			    m->processes[i].name, err->message);
		error_destroy(err);
	}
	say_progress(NULL);
	if (!m->summary.processes)
		return error_format(ERROR_FAILED, "none of %zu processes could be recorded",
				    m->count);
	return NULL;
}

struct error *record_many(struct target_options *o, const struct gospect_record_options *recording,
			  struct outfile *out, struct gospect_profile **ret,
			  struct many_summary *ret_summary)
{
	_cleanup_(many_release) struct many m = {0};
	struct error *err = find_processes(&m, o);
	char title[64];

	snprintf(title, sizeof(title), "%zu processes", m.count);
	if (!err)
		err = library_error(gospect_profile_create(title, &m.profile));
	if (!err)
		err = start_workers(&m, recording, out);
	if (!err)
		err = give_up_privilege(o, out);
	if (!err)
		err = take_processes(&m);
	if (err)
		return err;
	say_notes(&m);
	if (!gospect_profile_info(m.profile)->samples && filter_is_set(recording->filter))
		return error_format(ERROR_FAILED,
				    "no goroutine of %zu processes matches the filter",
				    m.summary.processes);
	*ret = take_ptr(m.profile);
	*ret_summary = m.summary;
	return NULL;
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
