#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/unit_test.h"
#include "top/page.h"
#include "top/page_text.h"
#include "top/request_rate.h"

/* Stack n has the functions main.leaf<n>, main.common, main.main. Label set n has two labels,
 * "zone=z<n>" and "all=yes". Creator 1 is main.starter; the others are unknown. */
#define MAX_STACKS 20000

struct made_names {
	struct top_names names;
	uint32_t functions[3];
};

static uint32_t text_id(struct top_names *names, const char *text)
{
	return intern_string(&names->text, text);
}

static struct error *made_stack(struct top_names *names, uint32_t stack,
				struct top_stack_names *ret)
{
	struct made_names *made = (struct made_names *)names;
	char leaf[32];

	snprintf(leaf, sizeof(leaf), "main.leaf%u", stack);
	made->functions[0] = text_id(names, leaf);
	made->functions[1] = text_id(names, "main.common");
	made->functions[2] = text_id(names, "main.main");
	*ret = (struct top_stack_names){made->functions, 3, made->functions[0]};
	return NULL;
}

static uint32_t made_creator(struct top_names *names, uint32_t creator)
{
	return text_id(names, creator == 1 ? "main.starter" : "(not known)");
}

static struct error *made_labels(struct top_names *names, uint32_t labels, uint32_t *ret,
				 uint32_t *ret_count)
{
	char zone[32];

	snprintf(zone, sizeof(zone), "zone=z%u", labels);
	ret[0] = text_id(names, "all=yes");
	ret[1] = text_id(names, zone);
	*ret_count = 2;
	return NULL;
}

/* Stack 5 waits for work. */
static bool made_judgement(struct top_names *names, const struct top_key *key)
{
	return key->stack == 5;
}

static const char *made_reason(struct top_names *names, uint8_t reason)
{
	return reason == 7 ? "chan receive" : "sleep";
}

static void made_description(struct top_names *names, uint32_t stack, struct strbuf *ret)
{
	for (int i = 0; i < 100; i++)
		strbuf_addf(ret, "main.frame%d\n    /src/main.go:%d\n", i, i);
}

struct fixture {
	struct made_names made;
	struct top_model model;
	struct top_rows rows;
	struct top_series series;
	struct top_view view;
	struct top_page page;
	const char *why;
	const struct request_numbers *requests;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->made.names = (struct top_names){{0},
					   made_stack,
					   made_creator,
					   made_labels,
					   made_judgement,
					   made_reason,
					   made_description};
	top_model_init(&f->model, 10);
	top_view_init(&f->view, "profile.pb.gz");
	f->rows.filter = "";
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	intern_release(&f->made.names.text);
	top_model_release(&f->model);
	top_rows_release(&f->rows);
	top_series_release(&f->series);
	top_page_release(&f->page);
	free(f);
	return 0;
}

#define SECOND 1000000000ull

/* Adds a second in which a goroutine was in the stack all the time. */
static void add_second(struct fixture *f, uint32_t stack, enum goroutine_status status)
{
	struct wall_bucket buckets[] = {
		{0},
		{.stack = stack,
		 .status = status,
		 .count = 100,
		 .ns = SECOND,
		 .labels = stack,
		 .creator = 1},
	};

	assert_null(top_model_add(&f->model, &(struct wall_interval){SECOND, buckets, 2}));
}

static void count(struct fixture *f, enum top_table table, enum top_column sort)
{
	f->rows.table = table;
	f->rows.sort = sort;
	assert_null(top_rows_begin(&f->rows, &f->model, &f->made.names));
	top_rows_finish(&f->rows);
}

static const struct top_row *row_named(const struct fixture *f, const char *name)
{
	for (size_t i = 0; i < f->rows.count; i++)
		if (!strcmp(intern_get(&f->made.names.text, f->rows.items[i].name), name))
			return &f->rows.items[i];
	return NULL;
}

static const char *name_at(const struct fixture *f, size_t i)
{
	assert_true(i < f->rows.count);
	return intern_get(&f->made.names.text, f->rows.items[i].name);
}

static void a_functions_time_is_its_own_and_that_of_what_it_calls(void **state)
{
	struct fixture *f = *state;

	add_second(f, 1, G_RUNNING);
	add_second(f, 2, G_WAITING);
	add_second(f, 1, G_RUNNING);
	add_second(f, 3, G_SYSCALL);
	count(f, TOP_FUNCTIONS, TOP_BY_SELF);
	assert_int_equal(f->rows.count, 5);
	assert_string_equal(name_at(f, 0), "main.leaf1");
	assert_float_equal(row_named(f, "main.leaf1")->self, 0.5, 1e-9);
	assert_float_equal(row_named(f, "main.common")->self, 0, 1e-9);
	assert_float_equal(row_named(f, "main.common")->states[TOP_RUNNING], 0.5, 1e-9);
	assert_float_equal(row_named(f, "main.common")->states[TOP_WAITING], 0.25, 1e-9);
	assert_float_equal(row_named(f, "main.leaf3")->states[TOP_SYSCALL], 0.25, 1e-9);
	assert_float_equal(row_named(f, "main.leaf2")->self, 0, 1e-9);
}

static void the_window_forgets_what_is_older(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < 5; i++)
		add_second(f, 1, G_RUNNING);
	for (int i = 0; i < 10; i++)
		add_second(f, 2, G_RUNNING);
	count(f, TOP_FUNCTIONS, TOP_BY_SELF);
	assert_int_equal(f->model.window_ns, 10 * SECOND);
	assert_null(row_named(f, "main.leaf1"));
	top_model_set_window(&f->model, 60);
	count(f, TOP_FUNCTIONS, TOP_BY_SELF);
	assert_float_equal(row_named(f, "main.leaf1")->self, 5 / 15.0, 1e-9);
	top_model_set_window(&f->model, 1);
	count(f, TOP_FUNCTIONS, TOP_BY_SELF);
	assert_float_equal(row_named(f, "main.leaf2")->self, 1, 1e-9);
}

static void a_minute_is_kept(void **state)
{
	struct fixture *f = *state;

	top_model_set_window(&f->model, 60);
	for (int i = 0; i < 200; i++)
		add_second(f, i, G_WAITING);
	assert_int_equal(f->model.window_ns, 60 * SECOND);
	count(f, TOP_FUNCTIONS, TOP_BY_WAITING);
	assert_null(row_named(f, "main.leaf139"));
	assert_non_null(row_named(f, "main.leaf140"));
	assert_null(top_model_interval(&f->model, 60));
	assert_int_equal(top_model_interval(&f->model, 59)->states[TOP_WAITING], SECOND);
}

/* As with a label that differs for each request: memory does not grow. */
static void old_samples_release_their_memory(void **state)
{
	struct fixture *f = *state;

	for (uint32_t i = 0; i < MAX_STACKS; i++)
		add_second(f, i, G_WAITING);
	assert_true(f->model.key_count < 5000);
	count(f, TOP_FUNCTIONS, TOP_BY_WAITING);
	assert_float_equal(row_named(f, "main.leaf19999")->states[TOP_WAITING], 0.1, 1e-9);
	assert_float_equal(row_named(f, "main.common")->states[TOP_WAITING], 1, 1e-9);
}

static void an_interval_without_time_is_no_second(void **state)
{
	struct fixture *f = *state;

	assert_null(top_model_add(&f->model, &(struct wall_interval){0}));
	assert_null(top_model_interval(&f->model, 0));
}

static void labels_and_creators_have_their_goroutines(void **state)
{
	struct fixture *f = *state;

	add_second(f, 1, G_RUNNING);
	add_second(f, 2, G_WAITING);
	count(f, TOP_LABELS, TOP_BY_RUNNING);
	assert_int_equal(f->rows.count, 3);
	assert_float_equal(row_named(f, "zone=z1")->states[TOP_RUNNING], 0.5, 1e-9);
	assert_float_equal(row_named(f, "all=yes")->states[TOP_WAITING], 0.5, 1e-9);
	count(f, TOP_CREATORS, TOP_BY_RUNNING);
	assert_int_equal(f->rows.count, 1);
	assert_float_equal(row_named(f, "main.starter")->states[TOP_RUNNING], 0.5, 1e-9);
}

static void a_filter_matches_any_case_and_any_of_what_is_known(void **state)
{
	static const struct {
		const char *filter;
		bool one, two;
	} cases[] = {{"LEAF1", true, false},
		     {"=main.leaf1", true, false},
		     {"=main.leaf", false, false},
		     {"zone=z2", false, true},
		     {"starter", true, true},
		     {"running", true, false},
		     {"sleep", false, true},
		     {"nothing", false, false},
		     {"", true, true}};
	struct fixture *f = *state;

	add_second(f, 1, G_RUNNING);
	add_second(f, 2, G_WAITING);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		f->rows.filter = cases[i].filter;
		count(f, TOP_FUNCTIONS, TOP_BY_NAME);
		assert_int_equal(row_named(f, "main.leaf1") != NULL, cases[i].one);
		assert_int_equal(row_named(f, "main.leaf2") != NULL, cases[i].two);
	}
}

static void add_goroutines(struct fixture *f, uint64_t many, enum top_table table,
			   enum top_column sort, bool reverse)
{
	f->rows.table = table;
	f->rows.sort = sort;
	f->rows.reverse = reverse;
	f->rows.now = 100000 * SECOND;
	assert_null(top_rows_begin(&f->rows, &f->model, &f->made.names));
	for (uint64_t i = 1; i <= many; i++) {
		struct top_goroutine g = {
			.goid = i,
			/* In no order. */
			.since = i * 7919 % many * SECOND,
			.key = {.stack = i % 3,
				.labels = i % 2,
				.creator = 1,
				.status = G_WAITING,
				.wait_reason = 7},
		};

		assert_null(top_rows_add_goroutine(&f->rows, &g));
	}
	top_rows_finish(&f->rows);
}

static void the_longest_waits_come_first(void **state)
{
	struct fixture *f = *state;

	add_goroutines(f, 10000, TOP_GOROUTINES, TOP_BY_TIME, false);
	assert_int_equal(f->rows.goroutines, 10000);
	assert_int_equal(f->rows.count, TOP_MAX_GOROUTINES);
	for (size_t i = 0; i < f->rows.count; i++)
		assert_int_equal(f->rows.items[i].goroutine.since, i * SECOND);
	add_goroutines(f, 10000, TOP_GOROUTINES, TOP_BY_TIME, true);
	for (size_t i = 0; i < f->rows.count; i++)
		assert_int_equal(f->rows.items[i].goroutine.since, (9999 - i) * SECOND);
	add_goroutines(f, 10000, TOP_GOROUTINES, TOP_BY_GOID, false);
	for (size_t i = 0; i < f->rows.count; i++)
		assert_int_equal(f->rows.items[i].goroutine.goid, i + 1);
}

static void a_label_has_its_longest_wait(void **state)
{
	struct fixture *f = *state;

	add_goroutines(f, 10, TOP_LABELS, TOP_BY_TIME, false);
	assert_int_equal(f->rows.count, 2);
	assert_int_equal(row_named(f, "all=yes")->time, 99999 * SECOND);
	assert_int_equal(row_named(f, "zone=z1")->time, 99999 * SECOND);
	add_goroutines(f, 10, TOP_CREATORS, TOP_BY_TIME, false);
	assert_int_equal(row_named(f, "main.starter")->time, 100000 * SECOND);
}

static enum top_action press(struct fixture *f, uint32_t key)
{
	return top_view_press(&f->view, &f->rows, 5, key);
}

static void type(struct fixture *f, const char *text)
{
	for (; *text; text++)
		assert_int_equal(press(f, *text), TOP_REDRAW);
}

static void keys_lead_from_a_function_to_its_goroutines_and_back(void **state)
{
	struct fixture *f = *state;

	add_second(f, 1, G_RUNNING);
	count(f, TOP_FUNCTIONS, TOP_BY_SELF);
	assert_int_equal(press(f, TOP_PRESS_DOWN), TOP_REDRAW);
	assert_int_equal(press(f, TOP_PRESS_UP), TOP_REDRAW);
	assert_int_equal(press(f, TOP_PRESS_ENTER), TOP_RECOUNT);
	assert_int_equal(f->view.table, TOP_GOROUTINES);
	assert_string_equal(f->view.filter, "=main.leaf1");
	add_goroutines(f, 10, TOP_GOROUTINES, TOP_BY_TIME, false);
	press(f, TOP_PRESS_DOWN);
	assert_int_equal(press(f, TOP_PRESS_ENTER), TOP_REDRAW);
	assert_int_equal(f->view.mode, TOP_SHOWS_STACK);
	assert_int_equal(f->view.goid, f->rows.items[1].goroutine.goid);
	assert_int_equal(press(f, TOP_PRESS_ESCAPE), TOP_REDRAW);
	assert_int_equal(f->view.mode, TOP_SHOWS_TABLE);
	assert_int_equal(press(f, TOP_PRESS_ESCAPE), TOP_RECOUNT);
	assert_string_equal(f->view.filter, "");
	assert_int_equal(press(f, 'q'), TOP_QUIT);
}

static void backspace_corrects_the_search_text(void **state)
{
	struct fixture *f = *state;

	press(f, '/');
	type(f, "maqin");
	press(f, TOP_PRESS_ERASE);
	press(f, TOP_PRESS_ERASE);
	press(f, TOP_PRESS_ERASE);
	press(f, 0xe4);
	press(f, 0x4e2d);
	press(f, 0x1f600);
	assert_string_equal(f->view.input, "ma\xc3\xa4\xe4\xb8\xad\xf0\x9f\x98\x80");
	press(f, TOP_PRESS_ERASE);
	press(f, TOP_PRESS_ERASE);
	assert_string_equal(f->view.input, "ma\xc3\xa4");
	press(f, TOP_PRESS_ESCAPE);
	assert_string_equal(f->view.filter, "");
	press(f, '/');
	for (int i = 0; i < 3000; i++)
		press(f, 'x');
	assert_int_equal(strlen(f->view.input), sizeof(f->view.input) - 1);
	for (int i = 0; i < 3000; i++)
		press(f, TOP_PRESS_ERASE);
	assert_string_equal(f->view.input, "");
	type(f, "q?");
	assert_int_equal(press(f, TOP_PRESS_ENTER), TOP_RECOUNT);
	assert_string_equal(f->view.filter, "q?");
}

static void a_profile_is_written_into_the_file_that_is_named(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(press(f, 'w'), TOP_REDRAW);
	assert_string_equal(f->view.input, "profile.pb.gz");
	assert_int_equal(press(f, TOP_PRESS_ENTER), TOP_WRITE);
	press(f, 'w');
	press(f, 'U' - '@');
	assert_int_equal(press(f, TOP_PRESS_ENTER), TOP_REDRAW);
}

static void selected_row_stays_on_the_screen(void **state)
{
	struct fixture *f = *state;

	f->view.table = TOP_GOROUTINES;
	add_goroutines(f, 12, TOP_GOROUTINES, TOP_BY_TIME, false);
	for (int i = 0; i < 20; i++) {
		press(f, TOP_PRESS_DOWN);
		assert_in_range(f->view.selected, f->view.scroll, f->view.scroll + 4);
	}
	assert_int_equal(f->view.selected, 11);
	assert_int_equal(f->view.scroll, 7);
	press(f, TOP_PRESS_PAGE_UP);
	assert_int_equal(f->view.selected, 6);
	press(f, TOP_PRESS_HOME);
	press(f, TOP_PRESS_PAGE_UP);
	assert_int_equal(f->view.selected + f->view.scroll, 0);
	press(f, TOP_PRESS_END);
	add_goroutines(f, 3, TOP_GOROUTINES, TOP_BY_TIME, false);
	top_view_fit(&f->view, &f->rows, 5);
	assert_int_equal(f->view.selected, 2);
	assert_int_equal(f->view.scroll, 0);
}

static void each_table_can_be_sorted_by_each_of_its_columns(void **state)
{
	struct fixture *f = *state;

	for (enum top_table t = TOP_FUNCTIONS; t < TOP_TABLES; t++) {
		enum top_column first;
		size_t columns;

		assert_int_equal(press(f, '1' + t), TOP_RECOUNT);
		top_columns(t, &columns);
		first = top_view_column(&f->view);
		for (size_t i = 1; i < columns; i++) {
			assert_int_equal(press(f, 's'), TOP_RECOUNT);
			assert_int_not_equal(top_view_column(&f->view), first);
		}
		press(f, 's');
		assert_int_equal(top_view_column(&f->view), first);
	}
	press(f, TOP_PRESS_TAB);
	assert_int_equal(f->view.table, TOP_FUNCTIONS);
	press(f, TOP_PRESS_BACK_TAB);
	assert_int_equal(f->view.table, TOP_LABELS);
}

static size_t characters(const char *text)
{
	size_t n = 0;

	for (; *text; text++)
		n += (*text & 0xc0) != 0x80;
	return n;
}

static void make_page(struct fixture *f, size_t width, size_t height, bool ascii)
{
	struct top_goroutine g = {.goid = 18, .key = {.status = G_WAITING, .wait_reason = 7}};
	struct top_picture picture = {
		.model = &f->model,
		.view = &f->view,
		.rows = &f->rows,
		.series = &f->series,
		.why = f->why,
		.requests = f->requests,
		.names = &f->made.names,
		.title = "shop (pid 4711, go1.27.2)",
		.goroutine = &g,
		.width = width,
		.height = height,
		.ascii = ascii,
	};

	assert_null(top_series_make(&f->series, &f->rows, f->view.scroll,
				    top_page_height(height, false)));
	assert_null(top_page_make(&f->page, &picture));
}

static void a_page_fits_any_terminal(void **state)
{
	static const size_t sizes[][2] = {{80, 24}, {200, 60}, {40, 10}, {20, 14}, {5, 5},
					  {1, 1},   {80, 2},   {3, 100}, {27, 14}};
	struct fixture *f = *state;

	add_second(f, 1, G_RUNNING);
	add_second(f, 2, G_WAITING);
	for (enum top_mode mode = TOP_SHOWS_TABLE; mode <= TOP_ASKS_FILE; mode++) {
		for (size_t i = 0; i < TOP_TABLES * sizeof(sizes) / sizeof(*sizes); i++) {
			f->view.table = i % TOP_TABLES;
			f->view.mode = mode;
			count(f, f->view.table, top_view_column(&f->view));
			make_page(f, sizes[i / TOP_TABLES][0], sizes[i / TOP_TABLES][1], false);
			assert_true(f->page.count <= sizes[i / TOP_TABLES][1] ||
				    !top_page_height(sizes[i / TOP_TABLES][1], false));
			for (size_t k = 0; k < f->page.count; k++)
				assert_true(characters(f->page.lines[k].text.data) <=
					    sizes[i / TOP_TABLES][0]);
		}
	}
}

static const char *line_with(const struct fixture *f, const char *text)
{
	for (size_t i = 0; i < f->page.count; i++)
		if (strstr(f->page.lines[i].text.data, text))
			return f->page.lines[i].text.data;
	return NULL;
}

static void a_page_shows_states_over_time_and_the_table(void **state)
{
	struct fixture *f = *state;

	add_second(f, 1, G_RUNNING);
	add_second(f, 1, G_WAITING);
	add_second(f, 1, G_RUNNING);
	count(f, TOP_FUNCTIONS, TOP_BY_SELF);
	f->why = "2 goroutines wait for x";
	make_page(f, 80, 24, true);
	assert_int_equal(f->page.count, 24);
	assert_string_equal(f->page.lines[1].text.data, "2 goroutines wait for x");
	assert_int_equal(f->page.lines[1].style, TOP_STYLE_STRONG);
	assert_string_equal(f->page.lines[2].text.data,
			    "running   1.00 100%                                               # #"
			    " max  1.00");
	assert_string_equal(f->page.lines[5].text.data,
			    "waiting      -    -                                                # "
			    " max  1.00");
	assert_non_null(line_with(f, "  0.67 100%  0.67 100%        -     0.33  0.33 100%"));
	assert_non_null(line_with(f, "*self"));
	assert_non_null(strstr(f->page.lines[0].text.data, "1 goroutines"));
}

static void requests_have_a_line_where_there_are_some(void **state)
{
	static const struct request_numbers n = {.rate = 212,
						 .current = 8.3,
						 .p99 = 480000000,
						 .oldest = 512000000,
						 .interval = 10000000};
	struct request_numbers more = n;
	struct fixture *f = *state;

	add_second(f, 1, G_RUNNING);
	count(f, TOP_FUNCTIONS, TOP_BY_SELF);
	f->requests = &n;
	make_page(f, 80, 24, true);
	assert_string_equal(f->page.lines[2].text.data,
			    "requests (estimated) 212/s  p50 <10ms  p99 480ms  8.3 in progress, "
			    "oldest 512ms");
	assert_int_equal(f->page.count, 24);
	more.at_least = true;
	f->requests = &more;
	make_page(f, 80, 24, true);
	assert_non_null(line_with(f, "requests (estimated) >212/s"));
}

/* "####" at the right end of a row's graph. */
static void a_row_has_its_last_minute(void **state)
{
	struct fixture *f = *state;
	const char *line;

	for (int i = 0; i < 60; i++)
		add_second(f, i < 30 ? 1 : 2, G_RUNNING);
	top_model_set_window(&f->model, 60);
	count(f, TOP_FUNCTIONS, TOP_BY_SELF);
	make_page(f, 300, 24, true);
	line = line_with(f, "main.leaf1");
	assert_non_null(line);
	assert_non_null(
		strstr(line, " ##############################                               "));
	assert_non_null(strstr(line_with(f, "main.leaf2"),
			       "                              ############################## "));
	assert_non_null(strstr(line_with(f, "main.common"), " - "));
	f->view.sort[TOP_FUNCTIONS] = 1;
	count(f, TOP_FUNCTIONS, TOP_BY_RUNNING);
	make_page(f, 300, 24, true);
	assert_non_null(strstr(line_with(f, "main.common"),
			       " ############################################################ "));
}

static void what_is_next_to_nothing_has_no_row(void **state)
{
	struct fixture *f = *state;

	top_model_set_window(&f->model, 60);
	for (int i = 0; i < 60; i++) {
		struct wall_bucket buckets[] = {
			{.stack = 1, .status = G_RUNNING, .count = 100, .ns = SECOND},
			{.stack = 2, .status = G_RUNNING, .count = 1, .ns = SECOND / 10000},
		};

		assert_null(top_model_add(&f->model, &(struct wall_interval){SECOND, buckets, 2}));
	}
	count(f, TOP_FUNCTIONS, TOP_BY_SELF);
	assert_null(row_named(f, "main.leaf2"));
	assert_int_equal(f->rows.left_out, 1);
	make_page(f, 80, 24, true);
	assert_non_null(line_with(f, "1 below 0.1 %"));
	/* A filter finds it. */
	f->rows.filter = "leaf2";
	count(f, TOP_FUNCTIONS, TOP_BY_SELF);
	assert_non_null(row_named(f, "main.leaf2"));
}

static void a_wait_reason_says_where_and_what_waits_for_work(void **state)
{
	struct wall_bucket buckets[] = {
		{.stack = 1, .status = G_WAITING, .wait_reason = 7, .ns = 2 * SECOND},
		{.stack = 5, .status = G_WAITING, .wait_reason = 7, .ns = 9 * SECOND},
		{.stack = 5, .status = G_WAITING, .wait_reason = 1, .ns = 30 * SECOND},
		{.stack = 1, .status = G_RUNNING, .ns = SECOND},
	};
	struct fixture *f = *state;
	const struct top_row *row;

	assert_null(top_model_add(&f->model, &(struct wall_interval){SECOND, buckets, 4}));
	count(f, TOP_WAITS, TOP_BY_BLOCKED);
	assert_int_equal(f->rows.count, 2);
	assert_string_equal(name_at(f, 0), "chan receive");
	row = row_named(f, "chan receive");
	assert_float_equal(row->states[TOP_WAITING], 11, 1e-9);
	assert_float_equal(row->blocked, 2, 1e-9);
	assert_string_equal(intern_get(&f->made.names.text, row->place), "main.leaf1");
	assert_float_equal(row_named(f, "sleep")->blocked, 0, 1e-9);
	f->view.table = TOP_WAITS;
	make_page(f, 80, 24, true);
	assert_non_null(line_with(f, " 2.00 100%  11.0  27%"));
	assert_int_equal(press(f, TOP_PRESS_ENTER), TOP_RECOUNT);
	assert_string_equal(f->view.filter, "=chan receive");
	assert_int_equal(f->view.table, TOP_GOROUTINES);
}

static void creators_grow(void **state)
{
	struct fixture *f = *state;
	const struct top_row *row;

	for (uint64_t i = 0; i < 100; i++) {
		struct wall_bucket buckets[] = {
			{.stack = 1 + i,
			 .creator = 1,
			 .status = G_WAITING,
			 .ns = (10 + 3 * i) * SECOND},
			{.stack = 1, .creator = 2, .status = G_RUNNING, .ns = SECOND / 10},
		};

		assert_null(top_model_add(&f->model, &(struct wall_interval){SECOND, buckets, 2}));
	}
	count(f, TOP_CREATORS, TOP_BY_GROWTH);
	assert_null(row_named(f, "(not known)"));
	row = row_named(f, "main.starter");
	assert_float_equal(row->count, 10 + 3 * 99, 1e-9);
	assert_float_equal(row->growth, 3 * 99, 1e-9);
	assert_float_equal(row->change, 3 * 59, 1e-9);
	f->view.table = TOP_CREATORS;
	make_page(f, 80, 24, true);
	assert_non_null(line_with(f, " 307.0 100%    +297     +177"));
}

static void a_text_can_be_scrolled_to_its_end_and_not_beyond(void **state)
{
	struct fixture *f = *state;

	f->view.mode = TOP_SHOWS_STACK;
	f->rows.names = &f->made.names;
	make_page(f, 80, 24, true);
	assert_non_null(line_with(f, "goroutine 18 [chan receive"));
	assert_non_null(line_with(f, "main.frame0"));
	press(f, TOP_PRESS_END);
	make_page(f, 80, 24, true);
	assert_null(line_with(f, "main.frame0"));
	assert_non_null(line_with(f, "/src/main.go:99"));
	assert_int_equal(f->page.last_scroll, 200 - top_page_height(24, false));
}

static void hostile_names_do_not_reach_the_terminal(void **state)
{
	static const char *const names[] = {"\x1b[2Jx",
					    "a\nb\r\t",
					    ("\xc2\x9b"
					     "31m"),
					    "\xff\xfe\x80",
					    "\xe2\x80\xaegnp.exe",
					    "\x7f",
					    "\xc3"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

		top_add_text(&sb, names[i], 20, i % 2);
		for (size_t k = 0; k < sb.length; k++)
			assert_in_range((unsigned char)sb.data[k], 0x20, 0x7e);
		assert_non_null(strchr(sb.data, '?'));
	}
}

static void a_long_name_keeps_its_end(void **state)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	assert_int_equal(top_add_text(&sb, "example.com/long/path.(*T).Method", 12, false), 12);
	assert_string_equal(sb.data, "<(*T).Method");
}

static void a_functions_name_loses_its_package_first(void **state)
{
	static const struct {
		size_t columns;
		const char *text;
	} cases[] = {{50, "example.com/long/path.(*T).Method[example.com/x.Y]"},
		     {49, "long/path.(*T).Method[example.com/x.Y]"},
		     {37, "path.(*T).Method[example.com/x.Y]"},
		     {32, "(*T).Method[example.com/x.Y]"},
		     {26, "Method[example.com/x.Y]"},
		     {10, "<com/x.Y]"}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

		top_add_name(&sb, cases[0].text, cases[i].columns, false);
		if (i < 5)
			assert_string_equal(sb.data, cases[i].text);
		else
			assert_int_equal(sb.length, 10);
	}
}

static void numbers_have_three_digits(void **state)
{
	static const struct {
		double n;
		const char *text, *percent;
	} cases[] = {{0.0004, "    -", "   -"}, {0.0123, "0.012", "   -"}, {0.85, " 0.85", "0.4%"},
		     {20, " 20.0", " 10%"},     {200, "200.0", "100%"},    {1e7, "  10M", NULL}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT, percent = STRBUF_INIT;

		top_add_number(&sb, cases[i].n);
		assert_string_equal(sb.data, cases[i].text);
		top_add_percent(&percent, cases[i].n, 200);
		if (cases[i].percent)
			assert_string_equal(percent.data, cases[i].percent);
	}
}

/* Samples every 10 ms on average of goroutines that serve connections; `truth` is the simulated
 * load. */
struct made_load {
	struct request_rate rate;
	uint64_t now;
	double next; /* look, in seconds */
	uint64_t seed;
	bool late; /* samples come at random times, as if no CPU were free for them */
};

static double random_part(struct made_load *l)
{
	l->seed = l->seed * 6364136223846793005u + 1442695040888963407u;
	return (l->seed >> 11) / 9007199254740992.0;
}

/* A connection whose requests come at random, `rate` a second, with this duration. */
struct made_connection {
	double next_begin, end;
	enum request_place place;
	bool ran;
};

static void serve(struct made_load *l, struct made_connection *c, uint64_t goid, double rate,
		  double duration, uint64_t *ret_requests)
{
	double now = l->now / 1e9;
	enum request_place place;
	bool ran = false;

	while (c->next_begin <= now) {
		ran = true;
		c->end = c->next_begin + duration;
		++*ret_requests;
		c->next_begin = c->end - log(1 - random_part(l)) / rate;
	}
	ran |= c->place == REQUEST_WITHIN && c->end <= now;
	place = c->end > now ? REQUEST_WITHIN : REQUEST_BETWEEN;
	if (ran)
		request_rate_moved(&l->rate, goid, c->place, place, l->now);
	c->place = place;
}

static void plan_look(struct made_load *l, struct request_looks *looks)
{
	double gap = l->late ? -log(1 - random_part(l)) * 0.01 : 0.01;

	l->next += gap;
	looks->count++;
	looks->squares += gap * gap;
}

static uint64_t load(struct made_load *l, size_t connections, double rate, double duration,
		     struct request_numbers *ret)
{
	struct made_connection made[100] = {0};
	uint64_t requests = 0;

	for (size_t i = 0; i < connections; i++)
		made[i].place = REQUEST_BETWEEN;
	for (uint64_t second = 1; second <= 60; second++) {
		struct request_looks looks = {.ns = SECOND};

		for (; l->next < second; plan_look(l, &looks)) {
			l->now = l->next * 1e9;
			for (size_t i = 0; i < connections; i++) {
				serve(l, &made[i], i + 1, rate, duration, &requests);
				looks.idle += made[i].place == REQUEST_BETWEEN;
			}
		}
		looks.idle /= looks.count;
		request_rate_second(&l->rate, &looks, second * SECOND);
	}
	l->rate.seen = true;
	assert_true(request_rate_get(&l->rate, 60 * SECOND, l->now, ret));
	return requests;
}

static void requests_are_counted_however_short(void **state)
{
	static const struct {
		double rate, duration;
		bool late;
	} cases[] = {{2, 0.001},       {20, 0.001},        {60, 0.0002},
		     {2, 0.1},         {2, 0.03},          {30, 0.008},
		     {2, 0.001, true}, {20, 0.0002, true}, {60, 0.0002, true}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct made_load l = {.seed = i + 1, .late = cases[i].late};
		struct request_numbers n;
		double truth = load(&l, 50, cases[i].rate, cases[i].duration, &n) / 60.0;

		assert_float_equal(n.rate, truth, 0.06 * truth);
		assert_false(n.at_least);
		if (cases[i].duration > 0.02)
			assert_float_equal(n.p50 / 1e9, cases[i].duration, 0.006);
		else
			assert_int_equal(n.p50, 0);
		request_rate_release(&l.rate);
	}
}

/*
 * The mean number in progress, from samples at random times. They count a request of length d for d
 * on average, with a variance of 2 g d, where g is the mean interval between samples.
 */
static void requests_in_progress_are_counted_without_bias_by_late_samples(void **state)
{
	static const struct {
		double rate, duration;
	} cases[] = {{7, 0.001}, {20, 0.003}, {5, 0.05}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct made_load l = {.seed = i + 1, .late = true};
		struct request_numbers n;
		double requests = load(&l, 50, cases[i].rate, cases[i].duration, &n);
		double current = requests * cases[i].duration / 60;
		double sd = sqrt(requests * 2 * 0.01 * cases[i].duration) / 60;

		assert_float_equal(n.current, current, 4 * sd);
		request_rate_release(&l.rate);
	}
}

/* Its thread may wait for a CPU meanwhile, and its stack is not in memory. */
static void a_request_is_in_progress_while_it_runs(void **state)
{
	const struct request_looks looks = {SECOND, 100, 0.01, 1};
	struct request_rate r = {0};
	struct request_numbers n;

	request_rate_moved(&r, 7, REQUEST_NOT, REQUEST_BETWEEN, SECOND / 2);
	request_rate_second(&r, &looks, SECOND);
	request_rate_moved(&r, 7, REQUEST_BETWEEN, REQUEST_UNKNOWN, SECOND);
	request_rate_moved(&r, 7, REQUEST_UNKNOWN, REQUEST_WITHIN, SECOND * 5 / 4);
	request_rate_moved(&r, 7, REQUEST_WITHIN, REQUEST_UNKNOWN, SECOND * 3 / 2);
	request_rate_moved(&r, 7, REQUEST_UNKNOWN, REQUEST_BETWEEN, SECOND * 7 / 4);
	request_rate_second(&r, &looks, 2 * SECOND);
	assert_true(request_rate_get(&r, SECOND, 2 * SECOND, &n));
	assert_float_equal(n.current, 0.75, 1e-9);
	/* A request in a goroutine of its own, which is running when it is first seen. */
	request_rate_moved(&r, 8, REQUEST_NOT, REQUEST_UNKNOWN, 2 * SECOND);
	request_rate_moved(&r, 8, REQUEST_UNKNOWN, REQUEST_WITHIN, SECOND * 5 / 2);
	request_rate_second(&r, &looks, 3 * SECOND);
	assert_true(request_rate_get(&r, SECOND, 3 * SECOND, &n));
	assert_float_equal(n.current, 0.5, 1e-9);
	/* There are no samples for a minute. */
	request_rate_ended(&r, 8, REQUEST_WITHIN, 63 * SECOND);
	request_rate_skip(&r, 63 * SECOND);
	request_rate_second(&r, &looks, 64 * SECOND);
	assert_true(request_rate_get(&r, SECOND, 64 * SECOND, &n));
	assert_float_equal(n.current, 0, 1e-9);
	request_rate_release(&r);
}

/* What cannot be known is not shown. */
static void more_requests_than_looks_are_a_lower_bound(void **state)
{
	struct made_load l = {.seed = 1};
	struct request_numbers n;
	double truth = load(&l, 20, 2000, 0.0001, &n) / 60.0;

	assert_true(n.at_least && n.rate > 0 && n.rate < truth);
	request_rate_release(&l.rate);
}

static void a_request_in_a_goroutine_of_its_own(void **state)
{
	const struct request_looks looks = {SECOND, 100, 0.01, 0};
	struct request_rate r = {0};
	struct request_numbers n;

	request_rate_moved(&r, 7, REQUEST_NOT, REQUEST_WITHIN, SECOND / 2);
	request_rate_second(&r, &looks, SECOND);
	/* It was there at first, so its begin is unknown. */
	request_rate_ended(&r, 7, REQUEST_WITHIN, SECOND);
	for (uint64_t i = 0; i < 10; i++) {
		request_rate_moved(&r, 10 + i, REQUEST_NOT, REQUEST_WITHIN, SECOND);
		request_rate_moved(&r, 10 + i, REQUEST_WITHIN, REQUEST_UNKNOWN, SECOND * 9 / 8);
		request_rate_ended(&r, 10 + i, REQUEST_UNKNOWN, SECOND * 5 / 4);
	}
	request_rate_moved(&r, 99, REQUEST_NOT, REQUEST_WITHIN, SECOND);
	request_rate_second(&r, &looks, 2 * SECOND);
	assert_true(request_rate_get(&r, SECOND, 2 * SECOND, &n));
	assert_float_equal(n.rate, 10, 1e-9);
	assert_int_equal(n.p99, SECOND / 4);
	assert_false(n.at_least);
	assert_in_range(n.oldest, SECOND, SECOND + 10000000);
	for (uint64_t i = 0; i < 10; i++) {
		request_rate_moved(&r, 200 + i, REQUEST_NOT, REQUEST_WITHIN, 3 * SECOND);
		request_rate_ended(&r, 200 + i, REQUEST_WITHIN, 3 * SECOND + 9000000);
	}
	request_rate_second(&r, &looks, 3 * SECOND);
	assert_true(request_rate_get(&r, SECOND, 3 * SECOND, &n));
	assert_true(n.at_least);
	request_rate_release(&r);
}

static void times_are_short(void **state)
{
	static const struct {
		uint64_t ns;
		const char *text;
	} cases[] = {{0, "0ms"},
		     {350000000, "350ms"},
		     {59950000000, "59.9s"},
		     {754 * SECOND, "12m34s"},
		     {18180 * SECOND, "5h03m"},
		     {UINT64_MAX, "213503d23h"}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

		top_add_time(&sb, cases[i].ns);
		assert_string_equal(sb.data, cases[i].text);
	}
}

#define TOP_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TOP_TEST(a_functions_time_is_its_own_and_that_of_what_it_calls),
		TOP_TEST(the_window_forgets_what_is_older),
		TOP_TEST(a_minute_is_kept),
		TOP_TEST(old_samples_release_their_memory),
		TOP_TEST(an_interval_without_time_is_no_second),
		TOP_TEST(labels_and_creators_have_their_goroutines),
		TOP_TEST(a_filter_matches_any_case_and_any_of_what_is_known),
		TOP_TEST(the_longest_waits_come_first),
		TOP_TEST(a_label_has_its_longest_wait),
		TOP_TEST(keys_lead_from_a_function_to_its_goroutines_and_back),
		TOP_TEST(backspace_corrects_the_search_text),
		TOP_TEST(a_profile_is_written_into_the_file_that_is_named),
		TOP_TEST(selected_row_stays_on_the_screen),
		TOP_TEST(each_table_can_be_sorted_by_each_of_its_columns),
		TOP_TEST(a_page_fits_any_terminal),
		TOP_TEST(a_page_shows_states_over_time_and_the_table),
		TOP_TEST(requests_have_a_line_where_there_are_some),
		TOP_TEST(a_row_has_its_last_minute),
		TOP_TEST(what_is_next_to_nothing_has_no_row),
		TOP_TEST(a_wait_reason_says_where_and_what_waits_for_work),
		TOP_TEST(creators_grow),
		TOP_TEST(a_text_can_be_scrolled_to_its_end_and_not_beyond),
		TOP_TEST(hostile_names_do_not_reach_the_terminal),
		TOP_TEST(a_long_name_keeps_its_end),
		TOP_TEST(a_functions_name_loses_its_package_first),
		TOP_TEST(numbers_have_three_digits),
		TOP_TEST(requests_are_counted_however_short),
		TOP_TEST(requests_in_progress_are_counted_without_bias_by_late_samples),
		TOP_TEST(a_request_is_in_progress_while_it_runs),
		TOP_TEST(more_requests_than_looks_are_a_lower_bound),
		TOP_TEST(a_request_in_a_goroutine_of_its_own),
		TOP_TEST(times_are_short),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
