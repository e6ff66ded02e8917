#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/unit_test.h"
#include "base/utf8.h"
#include "profile.pb-c.h"
#include "tests/made_up.h"

#define _cleanup_made_up_ __attribute__((cleanup(made_up_deinit)))

static const struct made_up_sample waits = {PROFILE_WAITING, "chan receive", NULL, 10, 0};

/* Writes a profile in a format; the caller frees *ret. */
static size_t written(const struct made_up *m, const struct profile_format *format,
		      struct profile_symbols *symbols, char **ret)
{
	_cleanup_profile_symbols_ struct profile_symbols *made = NULL;
	size_t size;
	FILE *out = open_memstream(ret, &size);

	assert_non_null(out);
	if (!symbols)
		symbols = made = made_up_symbolize(m);
	assert_null(format->write(m->profile, symbols, out));
	assert_int_equal(fclose(out), 0);
	return size;
}

static Pprof__Profile *read_pprof(const struct made_up *m, struct profile_symbols *symbols)
{
	_cleanup_free_ char *packed = NULL;
	size_t size = written(m, &profile_format_pprof, symbols, &packed), capacity = 1 << 20;
	_cleanup_free_ uint8_t *bytes = malloc(capacity);
	z_stream z = {.next_in = (Bytef *)packed, .avail_in = size};
	Pprof__Profile *p;

	assert_int_equal(inflateInit2(&z, 31), Z_OK);
	z.next_out = bytes;
	z.avail_out = capacity;
	assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
	p = pprof__profile__unpack(NULL, z.total_out, bytes);
	inflateEnd(&z);
	assert_non_null(p);
	return p;
}

static const char *label_of(const Pprof__Profile *p, size_t sample, const char *key)
{
	const Pprof__Sample *s = p->sample[sample];

	for (size_t i = 0; i < s->n_label; i++)
		if (!strcmp(p->string_table[s->label[i]->key], key))
			return p->string_table[s->label[i]->str];
	return NULL;
}

/* "function:line function:line" of a location. */
static void location_text(const Pprof__Profile *p, uint64_t id, char *ret, size_t size)
{
	const Pprof__Location *l = p->location[id - 1];
	size_t length = 0;

	ret[0] = '\0';
	assert_int_equal(l->id, id);
	for (size_t i = 0; i < l->n_line; i++) {
		const Pprof__Function *f = p->function[l->line[i]->function_id - 1];

		length += snprintf(ret + length, size - length, "%s%s:%d", i ? " " : "",
				   p->string_table[f->name], (int)l->line[i]->line);
	}
}

static void equal_samples_add_up(void **state)
{
	_cleanup_made_up_ struct made_up m;

	made_up_init(&m, "x", 1000);
	for (int i = 0; i < 3; i++)
		made_up_add(&m, &waits, "a;b");
	made_up_add(&m, &waits, "a");
	assert_int_equal(m.profile->count, 2);
	assert_int_equal(m.profile->samples[0].count, 3);
	assert_int_equal(m.profile->samples[0].wall_ns, 30000000);
}

static void samples_differ_by_state_wait_and_labels(void **state)
{
	static const struct made_up_sample kinds[] = {
		{PROFILE_WAITING, "sleep", NULL, 10, 0},
		{PROFILE_WAITING, "select", NULL, 10, 0},
		{PROFILE_WAITING, "sleep", "a=b", 10, 0},
		{PROFILE_WAITING, "sleep", "a=b c=d", 10, 0},
		{PROFILE_RUNNABLE, NULL, NULL, 10, 0},
	};
	_cleanup_made_up_ struct made_up m;
	uint64_t count, wall;

	made_up_init(&m, "x", 1000);
	for (int round = 0; round < 2; round++)
		for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
			made_up_add(&m, &kinds[i], "a;b");
	assert_int_equal(m.profile->count, ARRAY_SIZE(kinds));
	profile_totals(m.profile, &count, &wall);
	assert_int_equal(count, 10);
	assert_int_equal(wall, 100000000);
}

static void mappings_are_kept_by_address(void **state)
{
	static const uint64_t starts[] = {30, 10, 20};
	_cleanup_profile_ struct profile *p = profile_create();

	for (size_t i = 0; i < ARRAY_SIZE(starts); i++) {
		struct profile_mapping m = {.start = starts[i], .end = starts[i] + 5};

		assert_null(profile_add_mapping(p, &m));
	}
	assert_int_equal(p->mappings[0].start, 10);
	assert_int_equal(p->mappings[1].start, 20);
	assert_int_equal(p->mappings[2].start, 30);
	assert_string_equal(p->mappings[2].build_id, "");
}

static void formats_are_found_by_name(void **state)
{
	assert_ptr_equal(profile_format_named("pprof"), &profile_format_pprof);
	assert_null(profile_format_named("flame"));
}

static void stack_of(const struct made_up *m, char *ret, size_t size)
{
	_cleanup_profile_symbols_ struct profile_symbols *symbols = made_up_symbolize(m);
	struct go_frame frames[16];
	size_t count, length = 0;

	profile_stack_frames(symbols, &m->profile->samples[0], frames, 16, &count);
	ret[0] = '\0';
	for (size_t i = 0; i < count; i++)
		length += snprintf(ret + length, size - length, "%s%s", i ? " " : "",
				   frames[i].function);
}

static void a_stack_is_shown_without_wrappers_and_goexit(void **state)
{
	_cleanup_made_up_ struct made_up m;
	char text[256];

	made_up_init(&m, "x", 1000);
	made_up_add(&m, &waits,
		    "runtime.goexit;main.main;in <- mid <- out;~main.(*T).Do;leaf;[running]");
	stack_of(&m, text, sizeof(text));
	assert_string_equal(text, "[running] leaf in mid out main.main");
}

static void a_wrapper_that_panicked_is_shown(void **state)
{
	_cleanup_made_up_ struct made_up m;
	char text[256];

	made_up_init(&m, "x", 1000);
	made_up_add(&m, &waits, "main.main;~main.(*T).Do;runtime.panicwrap");
	stack_of(&m, text, sizeof(text));
	assert_string_equal(text, "runtime.panicwrap main.(*T).Do main.main");
}

static void a_wrapper_is_shown_that_has_not_run_yet(void **state)
{
	_cleanup_made_up_ struct made_up m;
	_cleanup_free_ char *folded = NULL;
	Pprof__Profile *p;
	char text[256];

	made_up_init(&m, "x", 1000);
	made_up_add(&m, &waits, "runtime.goexit;~main.main.gowrap1 m.go:7");
	stack_of(&m, text, sizeof(text));
	assert_string_equal(text, "main.main.gowrap1");
	written(&m, &profile_format_folded, NULL, &folded);
	assert_string_equal(folded, "main.main.gowrap1 10000\n");
	p = read_pprof(&m, NULL);
	assert_int_equal(p->sample[0]->n_location_id, 1);
	location_text(p, p->sample[0]->location_id[0], text, sizeof(text));
	assert_string_equal(text, "main.main.gowrap1:7");
	pprof__profile__free_unpacked(p, NULL);
}

static void an_empty_stack_is_unknown(void **state)
{
	_cleanup_made_up_ struct made_up m;
	char text[256];

	made_up_init(&m, "x", 1000);
	made_up_add(&m, &waits, "");
	stack_of(&m, text, sizeof(text));
	assert_string_equal(text, "[unknown]");
}

static void profile_without_functions_shows_addresses(void **state)
{
	_cleanup_profile_symbols_ struct profile_symbols *symbols = NULL;
	_cleanup_made_up_ struct made_up m;
	struct go_frame frames[4];
	char want[32];
	size_t count;

	made_up_init(&m, "x", 1000);
	made_up_add(&m, &waits, "main.main;[running]");
	assert_null(profile_symbolize(m.profile, NULL, &symbols));
	assert_int_equal(profile_symbols_of(symbols, STACK_PC_RUNNING)->count, 1);
	assert_int_equal(profile_symbols_of(symbols, m.profile->samples[0].pcs[1])->count, 0);
	assert_null(profile_symbols_of(symbols, 0x1234567));
	profile_stack_frames(symbols, &m.profile->samples[0], frames, 4, &count);
	assert_int_equal(count, 2);
	assert_string_equal(frames[0].function, "[running]");
	snprintf(want, sizeof(want), "0x%lx", (unsigned long)m.profile->samples[0].pcs[1]);
	assert_string_equal(frames[1].function, want);
}

static void folded_stacks_are_merged_and_sorted(void **state)
{
	_cleanup_made_up_ struct made_up m;
	_cleanup_free_ char *text = NULL;

	made_up_small(&m);
	written(&m, &profile_format_folded, NULL, &text);
	assert_string_equal(text, "main.main;main.handler;main.compute 2000000\n"
				  "main.main;main.handler;main.query 7000000\n"
				  "main.main;main.worker 500000\n"
				  "main.main;main.worker;main.write 500000\n");
}

static void folded_stacks_end_in_their_state(void **state)
{
	static const struct made_up_sample kinds[] = {
		{PROFILE_RUNNING, NULL, NULL, 10, 0},
		{PROFILE_RUNNABLE, NULL, NULL, 20, 0},
		{PROFILE_SYSCALL, NULL, NULL, 30, 0},
		{PROFILE_WAITING, NULL, NULL, 40, 0},
		{PROFILE_WAITING, "chan receive", "tenant=a", 50, 0},
		{PROFILE_WAITING, "chan receive", "tenant=b", 60, 0},
		{PROFILE_WAITING, "a;b", NULL, 70, 0},
	};
	_cleanup_made_up_ struct made_up m;
	_cleanup_free_ char *text = NULL;

	made_up_init(&m, "x", 1000);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		made_up_add(&m, &kinds[i], "main.main;main.f");
	made_up_add(&m, &kinds[0], "main.main;[running]");
	written(&m, &profile_format_folded_state, NULL, &text);
	assert_string_equal(text, "main.main;[running];[running] 10000\n"
				  "main.main;main.f;[a:b] 70000\n"
				  "main.main;main.f;[chan receive] 110000\n"
				  "main.main;main.f;[runnable] 20000\n"
				  "main.main;main.f;[running] 10000\n"
				  "main.main;main.f;[syscall] 30000\n"
				  "main.main;main.f;[waiting] 40000\n");
}

static void folded_names_cannot_break_a_line(void **state)
{
	_cleanup_made_up_ struct made_up m;
	_cleanup_free_ char *text = NULL;

	made_up_hostile(&m);
	written(&m, &profile_format_folded, NULL, &text);
	assert_string_equal(text, "main.<script>alert(1)</script>;main.__proto__;"
				  "main.\xef\xbf\xbd\xef\xbf\xbd 600000\n"
				  "main.a\\nb\\tc\\\"'&amp;\\u2028;constructor;[running] 400000\n");
}

static void a_profile_without_time_is_folded_by_count(void **state)
{
	struct profile_sample sample = {.pcs = (uint64_t[]){STACK_PC_RUNNING},
					.depth = 1,
					.count = 7};
	_cleanup_made_up_ struct made_up m;
	_cleanup_free_ char *text = NULL;
	Pprof__Profile *p;

	made_up_init(&m, "x", 0);
	assert_null(profile_add(m.profile, &sample));
	written(&m, &profile_format_folded, NULL, &text);
	assert_string_equal(text, "[running] 7\n");
	p = read_pprof(&m, NULL);
	assert_string_equal(p->string_table[p->default_sample_type], "samples");
	pprof__profile__free_unpacked(p, NULL);
}

static void pprof_has_values_labels_and_comments(void **state)
{
	_cleanup_made_up_ struct made_up m;
	Pprof__Profile *p;

	made_up_small(&m);
	p = read_pprof(&m, NULL);
	assert_int_equal(p->n_sample_type, 3);
	assert_string_equal(p->string_table[p->sample_type[1]->type], "wall");
	assert_string_equal(p->string_table[p->default_sample_type], "wall");
	assert_int_equal(p->n_sample, 5);
	assert_int_equal(p->sample[0]->value[0], 400);
	assert_int_equal(p->sample[0]->value[1], 4000000000);
	assert_int_equal(p->sample[1]->value[2], 2000000000);
	assert_string_equal(label_of(p, 0, "state"), "waiting");
	assert_string_equal(label_of(p, 0, "wait"), "chan receive");
	assert_string_equal(label_of(p, 0, "user"), "ann");
	assert_null(label_of(p, 1, "wait"));
	assert_int_equal(p->n_comment, 4);
	assert_int_equal(p->duration_nanos, 10000000000);
	assert_int_equal(p->n_mapping, 1);
	assert_true(p->mapping[0]->has_functions);
	assert_string_equal(p->string_table[p->mapping[0]->build_id], "d1ce0ff1ce");
	pprof__profile__free_unpacked(p, NULL);
}

static void pprof_keeps_own_labels_apart_from_state_and_wait(void **state)
{
	_cleanup_made_up_ struct made_up m;
	Pprof__Profile *p;

	made_up_hostile(&m);
	p = read_pprof(&m, NULL);
	assert_string_equal(label_of(p, 0, "state"), "waiting");
	assert_string_equal(label_of(p, 0, "label.state"), "mine");
	assert_string_equal(label_of(p, 0, "label.wait"), "mine");
	pprof__profile__free_unpacked(p, NULL);
}

static void pprof_location_is_the_call_with_what_is_inlined_there(void **state)
{
	_cleanup_made_up_ struct made_up m;
	Pprof__Profile *p;
	char text[128];

	made_up_init(&m, "x", 1000);
	made_up_add(&m, &waits, "main.main m.go:1;in i.go:2 <- out o.go:3");
	p = read_pprof(&m, NULL);
	location_text(p, p->sample[0]->location_id[0], text, sizeof(text));
	assert_string_equal(text, "in:2 out:3");
	assert_int_equal(p->location[p->sample[0]->location_id[0] - 1]->address,
			 m.profile->samples[0].pcs[0] - 1);
	assert_int_equal(p->location[0]->mapping_id, 1);
	pprof__profile__free_unpacked(p, NULL);
}

static void pprof_shows_a_wrapper_only_where_it_panicked(void **state)
{
	_cleanup_made_up_ struct made_up m;
	Pprof__Profile *p;
	char text[128];

	made_up_init(&m, "x", 1000);
	made_up_add(&m, &waits, "main.main;~wrap w.go:1;leaf");
	made_up_add(&m, &waits, "main.main;~wrap w.go:1;runtime.gopanic");
	p = read_pprof(&m, NULL);
	assert_int_equal(p->sample[0]->n_location_id, 2);
	assert_int_equal(p->sample[1]->n_location_id, 3);
	location_text(p, p->sample[1]->location_id[1], text, sizeof(text));
	assert_string_equal(text, "wrap:1");
	pprof__profile__free_unpacked(p, NULL);
}

static void raw_pprof_has_addresses_and_pseudo_names_only(void **state)
{
	_cleanup_profile_symbols_ struct profile_symbols *symbols = NULL;
	_cleanup_made_up_ struct made_up m;
	Pprof__Profile *p;

	made_up_init(&m, "x", 1000);
	made_up_add(&m, &waits, "main.main;main.f;[running]");
	assert_null(profile_symbolize(m.profile, NULL, &symbols));
	p = read_pprof(&m, symbols);
	assert_int_equal(p->n_function, 1);
	assert_string_equal(p->string_table[p->function[0]->name], "[running]");
	assert_int_equal(p->sample[0]->n_location_id, 3);
	assert_int_equal(p->location[1]->n_line, 0);
	assert_int_equal(p->location[1]->address, m.profile->samples[0].pcs[1] - 1);
	assert_false(p->mapping[0]->has_functions);
	assert_false(p->mapping[0]->has_line_numbers);
	pprof__profile__free_unpacked(p, NULL);
}

static struct json_object *member(struct json_object *object, const char *name)
{
	struct json_object *ret = NULL;

	assert_true(json_object_object_get_ex(object, name, &ret));
	return ret;
}

static void speedscope_weights_fit_its_stacks(void **state)
{
	_cleanup_made_up_ struct made_up m;
	_cleanup_free_ char *text = NULL;
	struct json_object *root, *profile, *samples, *weights, *frames;
	int64_t sum = 0;

	made_up_service(&m);
	written(&m, &profile_format_speedscope, NULL, &text);
	root = json_tokener_parse(text);
	assert_non_null(root);
	frames = member(member(root, "shared"), "frames");
	profile = json_object_array_get_idx(member(root, "profiles"), 0);
	samples = member(profile, "samples");
	weights = member(profile, "weights");
	assert_string_equal(json_object_get_string(member(profile, "type")), "sampled");
	assert_string_equal(json_object_get_string(member(profile, "unit")), "nanoseconds");
	assert_int_equal(json_object_array_length(samples), m.profile->count);
	assert_int_equal(json_object_array_length(weights), m.profile->count);
	for (size_t i = 0; i < m.profile->count; i++) {
		struct json_object *stack = json_object_array_get_idx(samples, i);

		sum += json_object_get_int64(json_object_array_get_idx(weights, i));
		for (size_t j = 0; j < json_object_array_length(stack); j++)
			assert_in_range(json_object_get_int64(json_object_array_get_idx(stack, j)),
					0, json_object_array_length(frames) - 1);
	}
	assert_int_equal(json_object_get_int64(member(profile, "endValue")), sum);
	json_object_put(root);
}

/* made_up_bursts(): each two seconds have two runs of main.compute, and a wait between them. */
static void speedscope_has_a_profile_a_state_in_the_order_of_time(void **state)
{
	_cleanup_made_up_ struct made_up m;
	_cleanup_free_ char *text = NULL;
	struct json_object *root, *profiles, *waiting, *weights;
	int64_t sum = 0, lock = 0;

	made_up_bursts(&m);
	written(&m, &profile_format_speedscope, NULL, &text);
	root = json_tokener_parse(text);
	profiles = member(root, "profiles");
	assert_int_equal(json_object_array_length(profiles), 2);
	waiting = json_object_array_get_idx(profiles, 1);
	assert_string_equal(json_object_get_string(member(waiting, "name")), "waiting");
	weights = member(waiting, "weights");
	/* The janitor's column before the first lock, one a column. */
	for (size_t i = 0; i < 50; i++)
		assert_int_equal(json_object_get_int64(json_object_array_get_idx(weights, i)),
				 10000000);
	/* Then a column has both, until the lock is free again. */
	for (size_t i = 50; i < 150; i++)
		lock += json_object_get_int64(json_object_array_get_idx(weights, i));
	assert_int_equal(lock, 50 * 110000000ll);
	for (size_t i = 0; i < json_object_array_length(weights); i++)
		sum += json_object_get_int64(json_object_array_get_idx(weights, i));
	assert_int_equal(sum, 35000000000);
	assert_int_equal(json_object_get_int64(member(waiting, "endValue")), sum);
	json_object_put(root);
}

static void speedscope_of_a_hostile_target_is_valid_json(void **state)
{
	_cleanup_made_up_ struct made_up m;
	_cleanup_free_ char *text = NULL;
	struct json_object *root;

	made_up_hostile(&m);
	written(&m, &profile_format_speedscope, NULL, &text);
	root = json_tokener_parse(text);
	assert_non_null(root);
	assert_string_equal(json_object_get_string(member(root, "name")), m.profile->command);
	json_object_put(root);
}

static size_t occurrences(const char *text, const char *what)
{
	size_t n = 0;

	for (; (text = strstr(text, what)); text++)
		n++;
	return n;
}

static void the_page_holds_no_markup_of_the_target(void **state)
{
	_cleanup_made_up_ struct made_up hostile, small;
	_cleanup_free_ char *bad = NULL, *good = NULL;

	made_up_hostile(&hostile);
	made_up_small(&small);
	written(&hostile, &profile_format_html, NULL, &bad);
	written(&small, &profile_format_html, NULL, &good);
	assert_int_equal(occurrences(bad, "<script"), occurrences(good, "<script"));
	assert_int_equal(occurrences(bad, "</script"), occurrences(good, "</script"));
	assert_int_equal(occurrences(bad, "<img"), 0);
	assert_int_equal(occurrences(good, "http://"), 0);
	assert_int_equal(occurrences(good, "https://"), 0);
}

static uint64_t next_number(const uint8_t **at)
{
	uint64_t value = 0;

	for (int shift = 0;; shift += 7) {
		uint8_t byte = *(*at)++;

		value |= (uint64_t)(byte & 127) << shift;
		if (!(byte & 128))
			return value;
	}
}

static size_t base64_decode(const char *text, size_t length, uint8_t *ret)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	uint32_t bits = 0;
	size_t n = 0;

	for (size_t i = 0; i < length && text[i] != '='; i++) {
		bits = bits << 6 | (uint32_t)(strchr(digits, text[i]) - digits);
		if (i % 4)
			ret[n++] = bits >> (6 - i % 4 * 2);
	}
	return n;
}

/* The JSON of a page. */
static struct json_object *page_json(const char *page)
{
	const char *start = strstr(page, "id=\"profile\">\n");
	struct json_tokener *tokener = json_tokener_new();
	struct json_object *root;

	assert_non_null(start);
	start += strlen("id=\"profile\">\n");
	root = json_tokener_parse_ex(tokener, start, strstr(start, "</script>") - start);
	json_tokener_free(tokener);
	assert_non_null(root);
	return root;
}

static void the_page_has_every_samples_time(void **state)
{
	_cleanup_made_up_ struct made_up m;
	_cleanup_free_ char *page = NULL;
	struct json_object *root, *sizes, *packed;
	uint8_t bytes[4096], numbers[8192];
	uLongf size = sizeof(numbers);
	const uint8_t *at = numbers;
	size_t skip;

	made_up_small(&m);
	written(&m, &profile_format_html, NULL, &page);
	root = page_json(page);
	sizes = member(root, "sizes");
	packed = member(root, "packed");
	assert_int_equal(json_object_get_int(member(sizes, "samples")), 5);
	assert_int_equal(uncompress(numbers, &size, bytes,
				    base64_decode(json_object_get_string(packed),
						  json_object_get_string_len(packed), bytes)),
			 Z_OK);
	skip = 3 * json_object_get_int(member(sizes, "lines")) +
	       2 * (json_object_get_int(member(sizes, "nodes")) - 1) + 6 * 5;
	while (skip--)
		next_number(&at);
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(next_number(&at), m.profile->samples[i].wall_ns);
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(next_number(&at), m.profile->samples[i].cpu_ns);
	for (size_t i = 0; i < 4 * 5; i++)
		next_number(&at); /* idle_count, idle_ns, longest_ns, longest_goroutine */
	assert_ptr_equal(at, numbers + size);
	json_object_put(root);
}

static void invalid_utf8_is_replaced(void **state)
{
	static const struct {
		const char *in, *out;
		size_t length;
	} cases[] = {
		{"plain", "plain", 5},
		{"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", 9},
		{"a\0b",
		 "a\xef\xbf\xbd"
		 "b",
		 3},
		{"\xc0\x80", "\xef\xbf\xbd\xef\xbf\xbd", 2},
		{"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", 3},
		{"x\xe2\x82", "x\xef\xbf\xbd\xef\xbf\xbd", 3},
		{"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", 4},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

		utf8_add(&sb, cases[i].in, cases[i].length);
		assert_string_equal(sb.data, cases[i].out);
	}
}

static void an_empty_profile_can_be_written(void **state)
{
	static const struct profile_format *const formats[] = {
		&profile_format_pprof,      &profile_format_folded,  &profile_format_folded_state,
		&profile_format_speedscope, &profile_format_firefox, &profile_format_html,
	};

	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		_cleanup_made_up_ struct made_up m;
		_cleanup_free_ char *text = NULL;

		made_up_init(&m, "x", 0);
		written(&m, formats[i], NULL, &text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_samples_add_up),
		cmocka_unit_test(samples_differ_by_state_wait_and_labels),
		cmocka_unit_test(mappings_are_kept_by_address),
		cmocka_unit_test(formats_are_found_by_name),
		cmocka_unit_test(a_stack_is_shown_without_wrappers_and_goexit),
		cmocka_unit_test(a_wrapper_that_panicked_is_shown),
		cmocka_unit_test(a_wrapper_is_shown_that_has_not_run_yet),
		cmocka_unit_test(an_empty_stack_is_unknown),
		cmocka_unit_test(profile_without_functions_shows_addresses),
		cmocka_unit_test(folded_stacks_are_merged_and_sorted),
		cmocka_unit_test(folded_stacks_end_in_their_state),
		cmocka_unit_test(folded_names_cannot_break_a_line),
		cmocka_unit_test(a_profile_without_time_is_folded_by_count),
		cmocka_unit_test(pprof_has_values_labels_and_comments),
		cmocka_unit_test(pprof_keeps_own_labels_apart_from_state_and_wait),
		cmocka_unit_test(pprof_location_is_the_call_with_what_is_inlined_there),
		cmocka_unit_test(pprof_shows_a_wrapper_only_where_it_panicked),
		cmocka_unit_test(raw_pprof_has_addresses_and_pseudo_names_only),
		cmocka_unit_test(speedscope_weights_fit_its_stacks),
		cmocka_unit_test(speedscope_has_a_profile_a_state_in_the_order_of_time),
		cmocka_unit_test(speedscope_of_a_hostile_target_is_valid_json),
		cmocka_unit_test(the_page_holds_no_markup_of_the_target),
		cmocka_unit_test(the_page_has_every_samples_time),
		cmocka_unit_test(invalid_utf8_is_replaced),
		cmocka_unit_test(an_empty_profile_can_be_written),
	};

	return cmocka_run_group_tests_name("profile", tests, NULL, NULL);
}
