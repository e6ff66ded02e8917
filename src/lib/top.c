/* A live view: src/top counts and shows the intervals of a sampler (sample/wall.h). */
#include <gospect/top.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "lib/error_api.h"
#include "lib/fill.h"
#include "lib/goroutine_filter.h"
#include "lib/options.h"
#include "lib/running_stacks.h"
#include "lib/target_handle.h"
#include "lib/top_numbers.h"
#include "lib/top_why.h"
#include "top/go_names.h"
#include "top/page.h"

_Static_assert((int)GOSPECT_TOP_KEY_UP == (int)TOP_PRESS_UP &&
		       (int)GOSPECT_TOP_KEY_BACK_TAB == (int)TOP_PRESS_BACK_TAB &&
		       (int)GOSPECT_TOP_ALERT == (int)TOP_STYLE_ALERT &&
		       (int)GOSPECT_TOP_RUNNING == (int)TOP_STYLE_RUNNING &&
		       (int)GOSPECT_TOP_STRONG == (int)TOP_STYLE_STRONG,
	       "one is handed on as the other");

/* As of a recording: see record.c. */
#define STACK_LIMIT (256u << 10)
#define MAX_STACK_WORDS (3u << 18)
/* The page is rebuilt each second. If that costs more than half of the budget, it is rebuilt less
 * often, but at least every MAX_REFRESH_NS. */
#define REFRESH_NS 1000000000ull
#define MAX_REFRESH_NS 15000000000ull
#define PAGE_SHARE 0.5
/* The same for the sentence about what stands out. */
#define WHY_SHARE 0.15
#define PROFILE_SECONDS 60
#define DEFAULT_BUDGET 1
#define DEFAULT_RATE 100
/* Many views without a screen run beside each other: none holds much memory. */
#define WATCH_READ_BYTES (128u << 10)
/* A sampler that uses all of its budget exceeds it by up to 7 %. */
#define SAMPLER_SHARE 0.93

/* The page handed out; `items` is valid until the next page. */
struct given_page {
	struct gospect_top_page page;
	struct gospect_top_line *items;
	const struct gospect_top_line **lines;
	size_t capacity, line_capacity;
};

struct gospect_top {
	struct gospect_target *target;
	struct wall_sampler *sampler;
	struct running_stacks running;
	struct profile *about; /* the process */
	struct go_names names;
	struct top_model model;
	struct top_rows rows;
	struct top_series series;
	struct top_why why;
	struct request_watch requests;
	struct top_view view;
	struct top_page page;
	struct given_page given;
	struct filter wanted_by;
	struct wall_bucket *wanted; /* of an interval */
	size_t wanted_capacity;
	size_t height; /* of the last page */
	double budget; /* percent */
	double rate;
	bool ascii;
	bool is_watch;  /* it has no screen: lib/top_numbers.h */
	bool filters;   /* options of the command line leave goroutines out */
	uint64_t now;   /* the time that is shown: CLOCK_MONOTONIC */
	uint64_t clock; /* and CLOCK_REALTIME */
	uint64_t refresh_at;
	uint64_t refresh_cpu; /* CPU time when the last refresh began; 0: its cost is known */
	uint64_t cost;        /* CPU time of the last time */
	struct top_numbers numbers;
	bool begun;
	bool skip_interval;  /* it includes time in which the view was frozen */
	struct error *ended; /* why it is no longer readable; NULL: it is readable */
	char alert[256];
	char title[128];
	char file[sizeof(((struct top_view *)0)->input)];
};

static bool is_wanted(struct gospect_top *t, const struct filter_subject *subject)
{
	return filter_matches(&t->wanted_by, subject, wall_sampler_set(t->sampler),
			      t->target->image);
}

/* The part of the interval that passes the filters of the command line. */
static struct error *filter_interval(struct gospect_top *t, struct wall_interval *interval)
{
	size_t kept = 0;

	if (!array_reserve(&t->wanted, &t->wanted_capacity, interval->count + 1))
		return &error_no_memory;
	for (size_t i = 0; i < interval->count; i++) {
		const struct wall_bucket *b = &interval->buckets[i];

		if (is_wanted(t, &(struct filter_subject){b->status, b->wait_reason, b->stack,
							  b->labels, 0}))
			t->wanted[kept++] = *b;
	}
	interval->buckets = t->wanted;
	interval->count = kept;
	return NULL;
}

/* What is not taken yet of a view without a screen. */
static void add_numbers(struct gospect_top *t, const struct wall_interval *interval)
{
	struct goroutine_set *set = wall_sampler_set(t->sampler);
	struct top_numbers *n = &t->numbers;

	n->seconds += interval->ns / 1e9;
	for (size_t i = 0; i < interval->count; i++) {
		const struct wall_bucket *b = &interval->buckets[i];
		const char *reason = goroutine_set_wait_reason(set, b->wait_reason);

		n->states[top_state_of(b->status)] += b->ns / 1e9;
		n->cpu += b->cpu_ns / 1e9;
		if (top_state_of(b->status) == TOP_WAITING && !strncmp(reason, "sync.", 5))
			n->locks += b->ns / 1e9;
	}
}

static struct error *take_interval(struct gospect_top *t)
{
	struct wall_interval interval;
	struct error *err = wall_sampler_interval(t->sampler, &interval);

	if (err)
		return err;
	if (interval.ns && t->skip_interval) {
		t->skip_interval = false;
		request_watch_skip(&t->requests, wall_sampler_looks(t->sampler), t->now);
		return NULL;
	}
	if (t->is_watch)
		add_numbers(t, &interval);
	err = filter_interval(t, &interval);
	if (!err)
		err = top_model_add(&t->model, &interval);
	if (!err && interval.ns)
		err = request_watch_interval(&t->requests, &t->model, &t->names.names,
					     wall_sampler_looks(t->sampler), t->now);
	return err;
}

static void moved(void *arg, const struct goroutine_record *before,
		  const struct goroutine_record *after, uint64_t now)
{
	struct gospect_top *t = arg;

	request_watch_moved(&t->requests, &t->names.names, before, after, now);
}

static size_t page_height(const struct gospect_top *t)
{
	return top_page_height(t->height, t->requests.shown);
}

static struct top_goroutine goroutine_of(const struct gospect_top *t,
					 const struct goroutine_record *r)
{
	return (struct top_goroutine){
		.goid = r->goid,
		.since = wall_sampler_since(t->sampler, r),
		.key = {r->stack, r->labels, r->owner_creator, goroutine_status(r),
			goroutine_wait_reason(r)},
	};
}

static struct error *add_goroutines(struct gospect_top *t)
{
	struct goroutine_set *set = wall_sampler_set(t->sampler);
	const struct goroutine_record *records = goroutine_set_records(set);
	struct error *err = NULL;

	for (size_t i = 0; !err && i < goroutine_set_count(set); i++) {
		const struct goroutine_record *r = &records[i];
		struct top_goroutine g;

		if (!wall_sampler_counts(r) ||
		    !is_wanted(t, &(struct filter_subject){goroutine_status(r),
							   goroutine_wait_reason(r), r->stack,
							   r->labels, r->goid}))
			continue;
		g = goroutine_of(t, r);
		err = top_rows_add_goroutine(&t->rows, &g);
	}
	return err;
}

static struct error *recount(struct gospect_top *t)
{
	struct error *err;

	if (t->model.window != t->view.window)
		top_model_set_window(&t->model, t->view.window);
	t->rows.table = t->view.table;
	t->rows.sort = top_view_column(&t->view);
	t->rows.reverse = t->view.reverse[t->view.table];
	t->rows.filter = t->view.filter;
	t->rows.now = t->now;
	err = top_rows_begin(&t->rows, &t->model, &t->names.names);
	if (!err && top_rows_want_goroutines(&t->rows))
		err = add_goroutines(t);
	top_rows_finish(&t->rows);
	request_watch_count(&t->requests, &t->model, t->now);
	top_view_fit(&t->view, &t->rows, page_height(t));
	return err;
}

/* `cost`: CPU time of this page. Costs that occur once, such as those of new names, delay
 * nothing. */
static uint64_t until_next(struct gospect_top *t, uint64_t cost)
{
	uint64_t usual = cost < t->cost ? cost : t->cost;
	double wanted = usual / (PAGE_SHARE * t->budget / 100);

	t->cost = cost;
	return wanted < REFRESH_NS       ? REFRESH_NS
	       : wanted > MAX_REFRESH_NS ? MAX_REFRESH_NS
					 : (uint64_t)wanted;
}

static struct code code_of(const struct gospect_top *t)
{
	return (struct code){&t->target->image->functions, running_stacks_modules(&t->running)};
}

static struct top_source source_of(struct gospect_top *t, unsigned int seconds)
{
	return (struct top_source){.model = &t->model,
				   .sampler = t->sampler,
				   .running = &t->running,
				   .about = t->about,
				   .code = code_of(t),
				   .end = t->clock,
				   .rate = t->rate,
				   .seconds = seconds};
}

static struct error *must_check find_why(struct gospect_top *t)
{
	const struct top_source source = source_of(t, t->view.window);

	return top_why_find(&t->why, &source, t->now, WHY_SHARE * t->budget / 100);
}

static struct error *must_check refresh(struct gospect_top *t)
{
	struct error *err;

	t->refresh_cpu = clock_cpu();
	t->now = clock_now();
	t->clock = clock_read(CLOCK_REALTIME);
	/* The first is part of setting up: nearly all names are new. */
	if (!t->cost)
		wall_sampler_pause(t->sampler);
	err = take_interval(t);
	if (!err)
		err = find_why(t);
	return err ? err : recount(t);
}

/* Notes the end of the target. The samples stay available. If its memory is gone, its file may have
 * been truncated, which is said at the end. */
static struct error *must_check note_end(struct gospect_top *t, struct error *err)
{
	if (err->code == ERROR_FAULT)
		elf_file_probe(t->target->image->elf);
	t->ended = err;
	snprintf(t->alert, sizeof(t->alert), "%s; the last state stays on the screen, q quits",
		 err->message);
	t->now = clock_now();
	t->clock = clock_read(CLOCK_REALTIME);
	err = take_interval(t);
	return err ? err : recount(t);
}

static struct error *must_check begin(struct gospect_top *t)
{
	struct error *err = wall_sampler_begin(t->sampler);

	t->begun = true;
	t->now = clock_now();
	t->refresh_at = t->now + REFRESH_NS;
	return err ? err : recount(t);
}

/* Samples the target, unless it has ended or the view is frozen. */
static struct error *must_check look(struct gospect_top *t)
{
	struct error *err = NULL;
	bool more;

	if (!t->ended && !t->view.frozen)
		err = wall_sampler_step(t->sampler, &more);
	/* A step without CPU budget does not notice an exit. */
	if (!err && !t->ended)
		err = target_check(t->target->target);
	return err;
}

/* The cost of a page includes showing it. */
static void adapt_refresh(struct gospect_top *t)
{
	if (t->refresh_cpu)
		t->refresh_at = t->now + until_next(t, clock_cpu() - t->refresh_cpu);
	t->refresh_cpu = 0;
}

static struct error *must_check step(struct gospect_top *t, bool *ret_new_page)
{
	struct error *err;

	if (!t->begun) {
		*ret_new_page = true;
		return begin(t);
	}
	adapt_refresh(t);
	err = look(t);
	/* ERROR_FAULT: the process exists, but its list of goroutines does not (its file was
	 * truncated). */
	if (err && (err->code == ERROR_GONE || err->code == ERROR_FAULT)) {
		*ret_new_page = true;
		return note_end(t, err);
	}
	if (err || t->ended || t->view.frozen || clock_now() < t->refresh_at)
		return err;
	*ret_new_page = true;
	return refresh(t);
}

struct gospect_error *gospect_top_step(struct gospect_top *t, uint32_t *ret)
{
	bool new_page = false;
	struct error *err = step(t, &new_page);

	if (err)
		return error_out(err);
	*ret = (new_page ? GOSPECT_TOP_NEW_PAGE : 0) |
	       (t->ended || t->view.frozen ? GOSPECT_TOP_RESTS : 0);
	return NULL;
}

const char *gospect_top_ended(const struct gospect_top *t)
{
	return t->ended ? t->ended->message : NULL;
}

/* ---- keys ---- */

struct gospect_error *gospect_top_press(struct gospect_top *t, uint32_t key,
					enum gospect_top_action *ret)
{
	struct error *err = NULL;

	*ret = GOSPECT_TOP_SHOW;
	switch (top_view_press(&t->view, &t->rows, page_height(t), key)) {
	case TOP_NOTHING:
		*ret = GOSPECT_TOP_NOTHING;
		break;
	case TOP_QUIT:
		*ret = GOSPECT_TOP_QUIT;
		break;
	case TOP_WRITE:
		*ret = GOSPECT_TOP_WRITE;
		break;
	case TOP_RECOUNT:
		err = recount(t);
		break;
	case TOP_FREEZE:
		t->skip_interval = !t->view.frozen;
		if (t->view.frozen)
			wall_sampler_pause(t->sampler);
		break;
	case TOP_REDRAW:
		break;
	}
	return error_out(err);
}

void gospect_top_offer_file(struct gospect_top *t, const char *path)
{
	snprintf(t->file, sizeof(t->file), "%s", path);
}

const char *gospect_top_input(const struct gospect_top *t)
{
	return t->view.input;
}

void gospect_top_say(struct gospect_top *t, const char *line)
{
	snprintf(t->view.message, sizeof(t->view.message), "%s", line);
}

struct gospect_error *gospect_top_profile(struct gospect_top *t, struct gospect_profile **ret)
{
	const struct top_source source = source_of(t, PROFILE_SECONDS);

	wall_sampler_pause(t->sampler);
	return error_out(top_profile_make(&source, ret));
}

/* ---- the page ---- */

static bool find_goroutine(const struct gospect_top *t, uint64_t goid, struct top_goroutine *ret)
{
	struct goroutine_set *set = wall_sampler_set(t->sampler);
	const struct goroutine_record *records = goroutine_set_records(set);

	for (size_t i = 0; i < goroutine_set_count(set); i++) {
		if (records[i].goid != goid || !wall_sampler_counts(&records[i]))
			continue;
		*ret = goroutine_of(t, &records[i]);
		return true;
	}
	return false;
}

static struct error *must_check make_page(struct gospect_top *t, size_t width)
{
	struct top_goroutine goroutine;
	struct top_picture picture = {
		.model = &t->model,
		.view = &t->view,
		.rows = &t->rows,
		.series = &t->series,
		.names = &t->names.names,
		.title = t->title,
		.why = t->why.known ? t->why.text : NULL,
		.requests = t->requests.shown ? &t->requests.numbers : NULL,
		.alert = *t->alert ? t->alert : NULL,
		.width = width,
		.height = t->height,
		.ascii = t->ascii,
	};
	struct error *err = top_series_make(&t->series, &t->rows, t->view.scroll, page_height(t));

	if (err)
		return err;
	if (t->view.mode == TOP_SHOWS_STACK && find_goroutine(t, t->view.goid, &goroutine))
		picture.goroutine = &goroutine;
	err = top_page_make(&t->page, &picture);
	if (!err && t->view.text_scroll > t->page.last_scroll)
		t->view.text_scroll = t->page.last_scroll;
	return err;
}

static struct error *must_check give_page(const struct top_page *from, struct given_page *to)
{
	if (!array_reserve(&to->items, &to->capacity, from->count + 1) ||
	    !array_reserve(&to->lines, &to->line_capacity, from->count + 1))
		return &error_no_memory;
	for (size_t i = 0; i < from->count; i++) {
		to->items[i] = (struct gospect_top_line){
			.text = from->lines[i].text.data,
			.style = (enum gospect_top_style)from->lines[i].style,
		};
		to->lines[i] = &to->items[i];
	}
	to->page = (struct gospect_top_page){from->count, to->lines};
	return NULL;
}

struct gospect_error *gospect_top_page(struct gospect_top *t, size_t width, size_t height,
				       const struct gospect_top_page **ret)
{
	struct error *err = NULL;

	if (t->height != height) {
		t->height = height;
		top_view_fit(&t->view, &t->rows, page_height(t));
	}
	err = make_page(t, width);
	if (!err)
		err = give_page(&t->page, &t->given);
	if (!err)
		*ret = &t->given.page;
	return error_out(err);
}

/* ---- without a screen ---- */

static struct error *must_check watch_refresh(struct gospect_top *t)
{
	t->now = clock_now();
	t->clock = clock_read(CLOCK_REALTIME);
	t->refresh_at = t->now + REFRESH_NS;
	return take_interval(t);
}

static struct error *must_check watch_begin(struct gospect_top *t)
{
	t->begun = true;
	t->now = clock_now();
	t->refresh_at = t->now + REFRESH_NS;
	return wall_sampler_begin(t->sampler);
}

struct error *top_watch_step(struct gospect_top *t, bool *ret_ended)
{
	struct error *err = t->begun ? look(t) : watch_begin(t);

	*ret_ended = err && (err->code == ERROR_GONE || err->code == ERROR_FAULT);
	if (*ret_ended) {
		error_destroy(err);
		return watch_refresh(t);
	}
	return err || clock_now() < t->refresh_at ? err : watch_refresh(t);
}

struct error *top_numbers_take(struct gospect_top *t, struct top_numbers *ret)
{
	struct error *err = watch_refresh(t);

	if (err)
		return err;
	request_watch_count(&t->requests, &t->model, t->now);
	*ret = t->numbers;
	ret->has_requests = t->requests.shown;
	ret->requests = t->requests.numbers;
	t->numbers = (struct top_numbers){0};
	return NULL;
}

struct error *top_watch_profile(struct gospect_top *t, unsigned int seconds,
				struct gospect_profile **ret)
{
	const struct top_source source = source_of(t, seconds);

	wall_sampler_pause(t->sampler);
	return top_profile_make(&source, ret);
}

/* ---- from the beginning to the end ---- */

static void name_target(struct gospect_top *t)
{
	const struct gospect_target_info *info = &t->target->info;
	const char *slash = strrchr(info->exe, '/');

	snprintf(t->title, sizeof(t->title), "%.60s (pid %d, %.30s)", slash ? slash + 1 : info->exe,
		 info->pid, info->go_version);
}

static struct error *must_check open_sampler(struct gospect_top *t,
					     const struct gospect_top_options *o)
{
	bool system = o->flags & GOSPECT_TOP_SYSTEM;
	struct gospect_target *target = t->target;
	const struct wall_options sample = {
		.hz = t->rate,
		.read_bytes = t->is_watch ? WATCH_READ_BYTES : 0,
		.budget = t->budget >= 100 ? 0 : SAMPLER_SHARE * t->budget / 100,
		.goid = t->wanted_by.want.goroutine,
		.system = system,
		.request_names = true,
		.stack_limit = STACK_LIMIT,
		.whole_first = true,
		.creators = !t->is_watch,
		.moved = t->filters ? NULL : moved,
		.moved_arg = t,
		.stop = target->cancel,
	};

	const struct oncpu_options running = {.hz = sample.hz,
					      .goid = sample.goid,
					      .no_goroutine = system,
					      .sample_program = true};
	struct error *err;

	err = wall_sampler_open(target->target, target->image, target->layout, &sample,
				&t->sampler);
	if (!err)
		running_stacks_open(&t->running, target->target, target->image, target->layout,
				    &running, t->sampler);
	return err;
}

static void set_up(struct gospect_top *t)
{
	const struct code code = code_of(t);

	stacks_limit(goroutine_set_stacks(wall_sampler_set(t->sampler)), MAX_STACK_WORDS);
	go_names_init(&t->names, t->sampler, &code);
	t->names.no_cpu_samples = t->running.denied != NULL;
	top_view_init(&t->view, t->file);
	top_model_init(&t->model, t->view.window);
	if (t->running.denied)
		snprintf(t->view.message, sizeof(t->view.message), "no on-CPU stacks: %s",
			 t->running.denied->message);
}

static bool has_filters(const struct gospect_filter *f)
{
	return f->goroutine || f->wait || f->function || f->label || f->states;
}

static struct error *must_check create(struct gospect_top *t, const struct gospect_top_options *o)
{
	struct error *err = target_check_cancel(t->target);

	t->budget = o->budget ? o->budget : DEFAULT_BUDGET;
	t->ascii = o->flags & GOSPECT_TOP_ASCII;
	name_target(t);
	if (!err && t->target->info.is_core)
		err = error_format(ERROR_USAGE,
				   "cannot show a core file live; take a snapshot of it");
	if (!err && !(t->budget >= 0.01 && t->budget <= 100))
		err = error_format(ERROR_USAGE, "invalid budget '%g' (0.01 to 100)", t->budget);
	if (!err && !(t->about = profile_create()))
		err = &error_no_memory;
	if (!err)
		err = filter_init(&t->wanted_by, o->filter);
	t->filters = has_filters(&t->wanted_by.want);
	if (!err)
		err = fill_process(t->about, t->target);
	if (!err)
		err = open_sampler(t, o);
	if (!err)
		set_up(t);
	return err;
}

static void release(struct gospect_top *t)
{
	error_destroy(t->ended);
	go_names_release(&t->names);
	top_model_release(&t->model);
	top_rows_release(&t->rows);
	top_series_release(&t->series);
	request_watch_release(&t->requests);
	top_page_release(&t->page);
	running_stacks_close(&t->running);
	wall_sampler_close(t->sampler);
	profile_destroy(t->about);
	filter_release(&t->wanted_by);
	free(t->wanted);
	free(t->given.items);
	free(t->given.lines);
	free(t);
}

static struct error *must_check new_top(struct gospect_target *target,
					const struct gospect_top_options *o, double rate,
					bool is_watch, struct gospect_top **ret)
{
	struct gospect_top *t = calloc(1, sizeof(*t));
	struct error *err;

	if (!t)
		return &error_no_memory;
	t->target = target;
	t->rate = rate;
	t->is_watch = is_watch;
	err = create(t, o);
	if (err)
		release(t);
	else
		*ret = t;
	return err;
}

struct error *top_watch_create(struct gospect_target *target, double budget, double rate,
			       unsigned int seconds, struct gospect_top **ret)
{
	const struct gospect_top_options o = {.size = sizeof(o), .budget = budget};
	struct error *err = new_top(target, &o, rate, true, ret);

	if (!err)
		top_model_set_window(&(*ret)->model, seconds);
	return err;
}

struct gospect_error *gospect_top_create(struct gospect_target *target,
					 const struct gospect_top_options *given,
					 struct gospect_top **ret)
{
	struct gospect_top_options o = {0};
	struct error *err = options_take(given, &o, sizeof(o), "gospect_top_options");

	return error_out(err ? err : new_top(target, &o, DEFAULT_RATE, false, ret));
}

/* Data that lives as long as the view has limits. */
static void remark_left_out(const struct gospect_top *t)
{
	struct goroutine_set *set = wall_sampler_set(t->sampler);
	uint64_t stacks = stacks_dropped(goroutine_set_stacks(set));
	uint64_t labels = goroutine_set_labels(set)->dropped;
	uint64_t creators = wall_sampler_result(t->sampler)->creators_left_out;
	uint64_t modules = modules_left_out(running_stacks_modules(&t->running));

	if (stacks || labels || creators || modules)
		remark(&t->target->remark,
		       "the program exceeds gospect's limits: samples without their stack %lu, "
		       "labels %lu, go statement %lu, code mapping %lu",
		       stacks, labels, creators, modules);
}

void gospect_top_destroy(struct gospect_top *t)
{
	if (!t)
		return;
	remark_left_out(t);
	release(t);
}
