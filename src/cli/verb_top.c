#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/request.h"
#include "cli/screen.h"
#include "cli/stop.h"
#include "cli/top_profile.h"
#include "lib/cancel.h"
#include "lib/fill.h"
#include "lib/filter.h"
#include "top/go_names.h"
#include "top/page.h"

/* As of a recording: see recording.c. */
#define STACK_LIMIT (256u << 10)
#define MAX_STACK_WORDS (3u << 18)
/* The screen is made anew each second; when that costs more than half of the budget, less often,
 * but not less often than that. */
#define REFRESH_NS 1000000000ull
#define MAX_REFRESH_NS 15000000000ull
#define SCREEN_SHARE 0.5
/* While nothing is looked at. */
#define REST_MS 500

enum { KEY_BUDGET = 0x8000, KEY_ALL };

struct top_verb {
	struct request request;
	double budget; /* percent */
	bool all;
};

static const struct argp_option options[] =
	{{NULL, 0, NULL, 0, "Recording:", 4},
	 {"budget", KEY_BUDGET, "PERCENT", 0,
	  "Use at most this share of one core (1); with too many goroutines, sample a random part "
	  "of them at each tick",
	  4},
	 {"all", KEY_ALL, NULL, 0, "Show the runtime's own goroutines too", 4},
	 {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct top_verb *v = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &v->request;
		return 0;
	case KEY_BUDGET:
		if (!parse_number(arg, 0.01, 100, &v->budget))
			return wrong_option(state, "invalid budget '%s' (0.01 to 100)", arg);
		return 0;
	case KEY_ALL:
		v->all = true;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp argp = {options,
				 parse,
				 "-p PID\n-- COMMAND ARGS...",
				 "Shows in the terminal what a Go program is doing: goroutines by "
				 "state, the hottest functions, the longest waits, by label and by "
				 "creator. Press ? for the keys and q to quit.\v"
				 "Key w writes a profile of the last minute to FILE (-o), or to a "
				 "new file whose name it asks for: in the current folder, in /tmp "
				 "or next to FILE. It hides what COMMAND prints.\n"
				 "\n"
				 "Examples:\n"
				 "  gospect top -p 1234\n"
				 "  gospect top -p 1234 --label route=/pay -o minute.html",
				 request_children,
				 NULL,
				 NULL};

struct session {
	struct top_verb *verb;
	const struct subject *subject;
	struct wall_sampler *sampler;
	struct profile *about; /* the process */
	struct go_names names;
	struct top_model model;
	struct top_rows rows;
	struct top_view view;
	struct top_page page;
	struct filter wanted_by;    /* the options of the command line */
	struct wall_bucket *wanted; /* of a lap */
	size_t wanted_capacity;
	uint64_t now;   /* of what is shown: CLOCK_MONOTONIC */
	uint64_t clock; /* and CLOCK_REALTIME */
	uint64_t refresh_at;
	uint64_t cost; /* CPU time of the last time */
	bool skip_lap; /* it has the time in which all was frozen */
	bool quit;
	struct error *ended; /* why it cannot be looked at any more; NULL: it can */
	char alert[256];
	char title[128];
	char file[1024];
};

static bool is_wanted(struct session *s, const struct filter_subject *subject)
{
	return filter_matches(&s->wanted_by, subject, wall_sampler_set(s->sampler),
			      s->subject->image);
}

/* What of the lap the filters of the command line leave. */
static struct error *filter_lap(struct session *s, struct wall_lap *lap)
{
	size_t kept = 0;

	if (!array_reserve(&s->wanted, &s->wanted_capacity, lap->count + 1))
		return &error_no_memory;
	for (size_t i = 0; i < lap->count; i++) {
		const struct wall_bucket *b = &lap->buckets[i];

		if (is_wanted(s, &(struct filter_subject){b->status, b->wait_reason, b->stack,
							  b->labels, 0}))
			s->wanted[kept++] = *b;
	}
	lap->buckets = s->wanted;
	lap->count = kept;
	return NULL;
}

static struct error *take_lap(struct session *s)
{
	struct wall_lap lap;
	struct error *err = wall_sampler_lap(s->sampler, &lap);

	if (err)
		return err;
	if (lap.ns && s->skip_lap) {
		s->skip_lap = false;
		return NULL;
	}
	err = filter_lap(s, &lap);
	return err ? err : top_model_add(&s->model, &lap);
}

static struct top_goroutine goroutine_of(const struct session *s, const struct goroutine_record *r)
{
	return (struct top_goroutine){
		.goid = r->goid,
		.since = wall_sampler_since(s->sampler, r),
		.key = {r->stack, r->labels, r->owner_creator, goroutine_status(r),
			goroutine_wait_reason(r)},
	};
}

static struct error *add_goroutines(struct session *s)
{
	struct goroutine_set *set = wall_sampler_set(s->sampler);
	const struct goroutine_record *records = goroutine_set_records(set);
	struct error *err = NULL;

	for (size_t i = 0; !err && i < goroutine_set_count(set); i++) {
		const struct goroutine_record *r = &records[i];
		struct top_goroutine g;

		if (!wall_sampler_counts(r) ||
		    !is_wanted(s, &(struct filter_subject){goroutine_status(r),
							   goroutine_wait_reason(r), r->stack,
							   r->labels, r->goid}))
			continue;
		g = goroutine_of(s, r);
		err = top_rows_add_goroutine(&s->rows, &g);
	}
	return err;
}

static size_t rows_height(void)
{
	size_t width, height;

	screen_size(&width, &height);
	return top_page_height(height);
}

static struct error *recount(struct session *s)
{
	struct error *err;

	if (s->model.window != s->view.window)
		top_model_set_window(&s->model, s->view.window);
	s->rows.table = s->view.table;
	s->rows.sort = top_view_column(&s->view);
	s->rows.reverse = s->view.reverse[s->view.table];
	s->rows.filter = s->view.filter;
	s->rows.now = s->now;
	err = top_rows_begin(&s->rows, &s->model, &s->names.names);
	if (!err && top_rows_want_goroutines(&s->rows))
		err = add_goroutines(s);
	top_rows_finish(&s->rows);
	top_view_settle(&s->view, &s->rows, rows_height());
	return err;
}

static bool find_goroutine(const struct session *s, uint64_t goid, struct top_goroutine *ret)
{
	struct goroutine_set *set = wall_sampler_set(s->sampler);
	const struct goroutine_record *records = goroutine_set_records(set);

	for (size_t i = 0; i < goroutine_set_count(set); i++) {
		if (records[i].goid != goid || !wall_sampler_counts(&records[i]))
			continue;
		*ret = goroutine_of(s, &records[i]);
		return true;
	}
	return false;
}

static struct error *draw(struct session *s)
{
	struct top_goroutine goroutine;
	struct top_picture picture = {
		.model = &s->model,
		.view = &s->view,
		.rows = &s->rows,
		.names = &s->names.names,
		.title = s->title,
		.alert = *s->alert ? s->alert : NULL,
		.ascii = screen_is_ascii(),
	};
	struct error *err;

	screen_size(&picture.width, &picture.height);
	if (s->view.mode == TOP_SHOWS_STACK && find_goroutine(s, s->view.goid, &goroutine))
		picture.goroutine = &goroutine;
	err = top_page_make(&s->page, &picture);
	if (err)
		return err;
	if (s->view.text_scroll > s->page.last_scroll)
		s->view.text_scroll = s->page.last_scroll;
	screen_show(&s->page);
	return NULL;
}

static struct error *show(struct session *s)
{
	struct error *err = recount(s);

	return err ? err : draw(s);
}

/* `cost`: CPU time of this one. What was costly once, as names that are new, does not delay. */
static uint64_t until_next(struct session *s, uint64_t cost)
{
	uint64_t usual = cost < s->cost ? cost : s->cost;
	double wanted = usual / (SCREEN_SHARE * s->verb->budget / 100);

	s->cost = cost;
	return wanted < REFRESH_NS       ? REFRESH_NS
	       : wanted > MAX_REFRESH_NS ? MAX_REFRESH_NS
					 : (uint64_t)wanted;
}

static struct error *refresh_screen(struct session *s)
{
	uint64_t cpu = clock_cpu();
	struct error *err;

	s->now = clock_now();
	s->clock = clock_read(CLOCK_REALTIME);
	/* The first is part of setting up: nearly all names are new. */
	if (!s->cost)
		wall_sampler_pause(s->sampler);
	err = take_lap(s);
	if (!err)
		err = show(s);
	s->refresh_at = s->now + until_next(s, clock_cpu() - cpu);
	return err;
}

/* What was seen stays to be looked at. */
static struct error *note_end(struct session *s, struct error *err)
{
	s->ended = err;
	snprintf(s->alert, sizeof(s->alert), "%s; the last state stays on the screen, q quits",
		 err->message);
	s->now = clock_now();
	s->clock = clock_read(CLOCK_REALTIME);
	err = take_lap(s);
	return err ? err : show(s);
}

static void name_file(struct session *s)
{
	const char *path = s->verb->request.output.path;
	time_t now = time(NULL);
	char moment[32];
	struct tm tm;

	strftime(moment, sizeof(moment), "%Y%m%d-%H%M%S", localtime_r(&now, &tm));
	if (path)
		snprintf(s->file, sizeof(s->file), "%s", path);
	else
		snprintf(s->file, sizeof(s->file), "top-%d-%s.pb.gz",
			 target_pid(s->subject->target), moment);
}

static void write_profile(struct session *s)
{
	struct output_options output = {s->view.input, s->verb->request.output.format};
	uint64_t ns = 0;
	struct error *err;

	wall_sampler_pause(s->sampler);
	if (!strcmp(output.path, "-"))
		err = error_format(ERROR_USAGE, "standard output is this terminal; choose a file");
	else
		err = top_profile_write(&s->model, s->sampler, s->subject, s->about, &output,
					&s->verb->request.subject, s->clock, &ns);
	if (err)
		snprintf(s->view.message, sizeof(s->view.message), "%s", err->message);
	else
		snprintf(s->view.message, sizeof(s->view.message),
			 "wrote the last %.0f s to %.200s", ns / 1e9, s->view.input);
	error_destroy(err);
}

static struct error *press(struct session *s, uint32_t key)
{
	if (key == SCREEN_GONE) {
		s->quit = true;
		return NULL;
	}
	if (key == SCREEN_RESIZED)
		return show(s);
	if (key == 'w')
		name_file(s);
	switch (top_view_press(&s->view, &s->rows, rows_height(), key)) {
	case TOP_NOTHING:
		return NULL;
	case TOP_QUIT:
		s->quit = true;
		return NULL;
	case TOP_RECOUNT:
		return show(s);
	case TOP_FREEZE:
		s->skip_lap = !s->view.frozen;
		if (s->view.frozen)
			wall_sampler_pause(s->sampler);
		break;
	case TOP_WRITE:
		write_profile(s);
		break;
	case TOP_REDRAW:
		break;
	}
	return draw(s);
}

static struct error *press_all(struct session *s, int milliseconds)
{
	uint32_t key = screen_press(milliseconds);
	struct error *err = NULL;

	while (!err && key != SCREEN_NO_PRESS && !s->quit) {
		err = press(s, key);
		key = screen_press(0);
	}
	return err;
}

/* Looks at the target, unless that is over or stopped for a while. */
static struct error *step(struct session *s)
{
	bool resting = s->ended || s->view.frozen, more;
	struct error *err = NULL;

	if (!resting)
		err = wall_sampler_step(s->sampler, &more);
	/* A step that may use no more CPU time does not notice it. */
	if (!err && !s->ended)
		err = target_check(s->subject->target);
	/* ERROR_FAULT: it is there, and its list of goroutines is not (its file was truncated). */
	if (err && (err->code == ERROR_GONE || err->code == ERROR_FAULT))
		err = note_end(s, err);
	if (!err)
		err = press_all(s, resting ? REST_MS : 0);
	if (!err && !s->ended && !s->view.frozen && clock_now() >= s->refresh_at)
		err = refresh_screen(s);
	return err;
}

static void name_target(struct session *s)
{
	const char *path = target_exe_name(s->subject->target), *slash = strrchr(path, '/');

	snprintf(s->title, sizeof(s->title), "%.60s (pid %d, %.30s)", slash ? slash + 1 : path,
		 target_pid(s->subject->target), s->subject->image->info.version);
}

static struct error *run_screen(struct session *s)
{
	struct error *err;

	screen_open();
	wall_sampler_begin(s->sampler);
	s->now = clock_now();
	s->refresh_at = s->now + REFRESH_NS;
	err = show(s);
	while (!err && !s->quit && !stop_requested)
		err = step(s);
	screen_close();
	return err;
}

/* What is kept for as long as the view lasts has limits. */
static void say_left_out(const struct session *s)
{
	struct goroutine_set *set = wall_sampler_set(s->sampler);
	uint64_t stacks = stacks_dropped(goroutine_set_stacks(set));
	uint64_t labels = goroutine_set_labels(set)->dropped;
	uint64_t creators = wall_sampler_result(s->sampler)->creators_left_out;
	uint64_t modules = modules_left_out(wall_sampler_modules(s->sampler));

	if (stacks || labels || creators || modules)
		say("the program exceeds gospect's limits: samples without their stack %lu, "
		    "labels %lu, go statement %lu, code mapping %lu",
		    stacks, labels, creators, modules);
}

static void close_session(struct session *s)
{
	error_destroy(s->ended);
	go_names_release(&s->names);
	top_model_release(&s->model);
	top_rows_release(&s->rows);
	top_page_release(&s->page);
	wall_sampler_close(s->sampler);
	profile_destroy(s->about);
	filter_release(&s->wanted_by);
	free(s->wanted);
}

static struct error *top(struct top_verb *v, const struct subject *subject)
{
	_cleanup_(close_session) struct session s = {.verb = v, .subject = subject};
	struct wall_options sample = {
		.hz = 100,
		.budget = v->budget >= 100 ? 0 : v->budget / 100,
		.goid = v->request.filter.goroutine,
		.system = v->all,
		.stack_limit = STACK_LIMIT,
		.on_cpu = true,
		.nobodys = v->all,
		.whole_first = true,
		.creators = true,
		.stop = cancel_flag(stop_cancel),
	};
	struct error *err;

	name_target(&s);
	s.about = profile_create();
	err = s.about ? filter_init(&s.wanted_by, &v->request.filter) : &error_no_memory;
	if (!err)
		err = fill_process(s.about, subject->handle);
	if (!err)
		err = wall_sampler_open(subject->target, subject->image, subject->layout, &sample,
					&s.sampler);
	if (err)
		return err;
	stacks_limit(goroutine_set_stacks(wall_sampler_set(s.sampler)), MAX_STACK_WORDS);
	go_names_init(&s.names, s.sampler,
		      &(struct code){&subject->image->functions, wall_sampler_modules(s.sampler)});
	top_view_init(&s.view, s.file);
	top_model_init(&s.model, s.view.window);
	if (wall_sampler_result(s.sampler)->no_on_cpu)
		snprintf(s.view.message, sizeof(s.view.message), "no on-CPU stacks: %s",
			 wall_sampler_result(s.sampler)->no_on_cpu->message);
	err = run_screen(&s);
	say_left_out(&s);
	if (!err && s.ended)
		say("%s", s.ended->message);
	return err;
}

/* A command would write into our screen, and read our keys. */
static void hide_terminal(int saved[3])
{
	_cleanup_close_ int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = 0; fd < 3; fd++) {
		saved[fd] = -1;
		if (nothing < 0 || !isatty(fd))
			continue;
		saved[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 3);
		if (saved[fd] >= 0)
			dup2(nothing, fd);
	}
}

static void show_terminal(int saved[3])
{
	for (int fd = 0; fd < 3; fd++) {
		if (saved[fd] < 0)
			continue;
		dup2(saved[fd], fd);
		close(saved[fd]);
	}
}

static struct error *open_target(const struct subject_options *o, struct subject *s)
{
	int saved[3] = {-1, -1, -1};
	struct error *err;

	if (o->command)
		hide_terminal(saved);
	err = subject_open(o, s);
	show_terminal(saved);
	return err;
}

static struct error *run_top(struct top_verb *v, int *ret)
{
	_cleanup_subject_ struct subject s = {0};
	struct error *err = subject_check(&v->request.subject, "top");

	if (!err && (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)))
		err = error_format(
			ERROR_USAGE,
			"top: standard input and output are not a terminal; use `gospect record`, "
			"which writes a file");
	if (err)
		return err;
	stop_on_signals();
	err = screen_prepare();
	if (!err)
		err = top_profile_name_outputs(&v->request.output, &v->request.subject);
	if (!err)
		err = open_target(&v->request.subject, &s);
	if (!err)
		err = top(v, &s);
	if (s.child && s.target && !error_dropped(target_check(s.target)))
		say("the command (pid %d) is still running; waiting for its end", s.child);
	if (s.child)
		*ret = subject_wait(&s);
	return err;
}

static struct error *run(int argc, char **argv, int *ret)
{
	struct top_verb v = {.budget = 1, .request.subject.confines = true};
	bool help;
	struct error *err = parse_options(&argp, "top", argc, argv, &v, &help);

	if (!err && !help)
		err = run_top(&v, ret);
	return err;
}

const struct verb verb_top =
	{"top", "what it does, live, in the terminal: states, hot functions, long waits", run};
