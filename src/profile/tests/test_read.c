#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/cleanup.h"
#include "base/unit_test.h"
#include "profile/groups.h"
#include "profile/read.h"
#include "profile/read_any.h"
#include "tests/made_up.h"

#define _cleanup_made_up_ __attribute__((cleanup(made_up_deinit)))

static size_t write_as(const struct profile *p, const struct profile_symbols *symbols,
		       const struct profile_format *format, char **ret)
{
	size_t size;
	FILE *out = open_memstream(ret, &size);

	assert_non_null(out);
	assert_null(format->write(p, symbols, out));
	assert_int_equal(fclose(out), 0);
	return size;
}

/* The service of made_up_service.c, and its pprof file. */
struct fixture {
	struct made_up made;
	struct profile_symbols *symbols;
	char *packed;
	size_t size;
};

static int set_up(void **state)
{
	static struct fixture f;

	made_up_service(&f.made);
	f.symbols = made_up_symbolize(&f.made);
	f.size = write_as(f.made.profile, f.symbols, &profile_format_pprof, &f.packed);
	*state = &f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	profile_symbols_destroy(f->symbols);
	made_up_deinit(&f->made);
	free(f->packed);
	return 0;
}

static void written_profile_reads_back_equal(void **state)
{
	struct fixture *f = *state;
	_cleanup_profile_file_ struct profile_file file = {0};
	_cleanup_free_ char *before = NULL, *after = NULL;

	assert_null(profile_read(f->packed, f->size, NULL, &file));
	assert_false(file.raw);
	assert_int_equal(file.profile->duration_ns, f->made.profile->duration_ns);
	assert_int_equal(file.profile->comment_count, f->made.profile->comment_count);
	write_as(f->made.profile, f->symbols, &profile_format_folded, &before);
	write_as(file.profile, file.symbols, &profile_format_folded, &after);
	assert_string_equal(after, before);
}

static void a_profile_without_functions_is_raw(void **state)
{
	struct fixture *f = *state;
	_cleanup_profile_symbols_ struct profile_symbols *none = NULL;
	_cleanup_profile_file_ struct profile_file file = {0};
	_cleanup_free_ char *packed = NULL, *again = NULL;
	size_t size, size_again;

	assert_null(profile_symbolize(f->made.profile, NULL, &none));
	size = write_as(f->made.profile, none, &profile_format_pprof, &packed);
	assert_null(profile_read(packed, size, NULL, &file));
	assert_true(file.raw);
	size_again = write_as(file.profile, file.symbols, &profile_format_pprof, &again);
	assert_int_equal(size, size_again);
	assert_memory_equal(packed, again, size);
}

/* Functions by the address that is looked up: some inlined, some wrappers. */
static size_t frames_at(const void *functions, uint64_t pc, struct go_frame *ret, size_t max)
{
	static char names[2][32];
	uint64_t at = stack_pc_lookup(pc);

	assert_true(max >= 2);
	for (int i = 0; i < 2; i++)
		snprintf(names[i], sizeof(names[i]), "main.f%lx_%d", at, i);
	ret[0] = (struct go_frame){names[0], "a.go", at % 1000, 7, .inlined = !(at & 2)};
	ret[1] = (struct go_frame){names[1], "b.go", at % 999, 0};
	ret[0].wrapper = at & 2 && at & 4;
	return at & 2 ? 1 : 2;
}

static struct profile_symbols *name_all(const struct profile *p)
{
	struct symbol_source source = {frames_at, frames_at};
	struct profile_symbols *symbols;

	assert_null(symbols_create(p, &source, &symbols));
	return symbols;
}

/* A return address and an instruction that are looked up at one place; every pseudo word. */
static void add_words(struct profile *p)
{
	uint64_t pcs[STACK_PC_LAST_PSEUDO] = {0x402001, 0x402000 | STACK_PC_EXACT};
	struct profile_label label = {intern_string(&p->strings, "empty"), 0};
	struct profile_sample sample = {.pcs = pcs, .depth = 2, .count = 1, .idle_ns = 5};
	static const struct pclntab none;
	struct go_frame frame;

	assert_null(profile_add(p, &sample));
	sample.labels = &label;
	sample.label_count = 1;
	assert_null(profile_add(p, &sample));
	sample.depth = 0;
	for (uint64_t i = 1; i < STACK_PC_LAST_PSEUDO; i++)
		if (pclntab_frames(&none, i, &frame, 1))
			pcs[sample.depth++] = i;
	assert_true(sample.depth >= 9);
	assert_null(profile_add(p, &sample));
}

static void assert_raw_becomes_direct(struct profile *p, const struct profile_format *format)
{
	_cleanup_profile_symbols_ struct profile_symbols *none = NULL, *named = name_all(p),
							 *later = NULL;
	_cleanup_free_ char *raw = NULL, *direct = NULL, *completed = NULL;
	_cleanup_profile_file_ struct profile_file file = {0};
	size_t size;

	assert_null(profile_symbolize(p, NULL, &none));
	size = write_as(p, none, &profile_format_pprof, &raw);
	assert_null(profile_read(raw, size, NULL, &file));
	assert_true(file.raw);
	file.profile->go_version = strdup(p->go_version);
	later = name_all(file.profile);
	size = write_as(p, named, format, &direct);
	assert_int_equal(write_as(file.profile, later, format, &completed), size);
	assert_memory_equal(completed, direct, size);
}

static void symbolized_raw_profile_equals_the_direct_one(void **state)
{
	static void (*const make[])(struct made_up *) = {made_up_small, made_up_service,
							 made_up_hostile};
	static const struct profile_format *const formats[] = {
		&profile_format_pprof,      &profile_format_folded,  &profile_format_folded_state,
		&profile_format_speedscope, &profile_format_firefox, &profile_format_html,
	};

	for (size_t i = 0; i < sizeof(make) / sizeof(*make); i++) {
		_cleanup_made_up_ struct made_up made = {0};

		make[i](&made);
		add_words(made.profile);
		for (size_t k = 0; k < sizeof(formats) / sizeof(*formats); k++)
			assert_raw_becomes_direct(made.profile, formats[k]);
	}
}

static uint64_t time_of(const struct profile *p, enum profile_state state, const char *wait)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < p->count; i++)
		if (p->samples[i].state == state &&
		    !strcmp(intern_get(&p->strings, p->samples[i].wait), wait))
			sum += p->samples[i].wall_ns;
	return sum;
}

static void folded_states_read_back_with_their_times(void **state)
{
	struct fixture *f = *state;
	const struct profile *made = f->made.profile;
	_cleanup_profile_file_ struct profile_file file = {0};
	_cleanup_free_ char *text = NULL;
	size_t size = write_as(made, f->symbols, &profile_format_folded_state, &text);

	assert_null(profile_read_any(text, size, NULL, &file));
	assert_null(strstr(text, "from folded"));
	for (size_t i = 0; i < made->count; i++) {
		const struct profile_sample *s = &made->samples[i];
		const char *wait = intern_get(&made->strings, s->wait);

		assert_in_range(time_of(file.profile, s->state, wait) / 1000000,
				time_of(made, s->state, wait) / 1000000 - 1,
				time_of(made, s->state, wait) / 1000000 + 1);
	}
}

/* One stack without a state: frames in brackets are frames. */
static void folded_stacks_without_states_have_none(void **state)
{
	static const char text[] = "main.main;[libc.so] 1000\nmain.main;main.f 2000\n",
			  stated[] =
				  "main.main;[select] 1000\nmain.main;[deeper frames omitted] 5\n";
	_cleanup_profile_file_ struct profile_file plain = {0}, file = {0};

	assert_null(profile_read_any(text, sizeof(text) - 1, NULL, &plain));
	assert_int_equal(time_of(plain.profile, PROFILE_RUNNING, ""), 3000000);
	assert_null(profile_read_any(stated, sizeof(stated) - 1, NULL, &file));
	assert_int_equal(time_of(file.profile, PROFILE_WAITING, "select"), 1000000);
	assert_int_equal(time_of(file.profile, PROFILE_RUNNING, ""), 5000);
}

static size_t inflated(const struct fixture *f, uint8_t *out, size_t capacity)
{
	z_stream z = {.next_in = (Bytef *)f->packed, .avail_in = f->size};

	assert_int_equal(inflateInit2(&z, 31), Z_OK);
	z.next_out = out;
	z.avail_out = capacity;
	assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
	inflateEnd(&z);
	return z.total_out;
}

/* Whatever the damage, the profile is read or refused. */
static void a_damaged_profile_is_read_or_refused(void **state)
{
	struct fixture *f = *state;
	static uint8_t bytes[1 << 20];
	size_t size = inflated(f, bytes, sizeof(bytes));
	unsigned int random = 1, refused = 0;

	for (size_t i = 0; i < 4000; i++) {
		_cleanup_profile_file_ struct profile_file file = {0};
		_cleanup_groups_ struct groups groups = {0};
		size_t at = (random = random * 1664525 + 1013904223) % size;
		uint8_t before = bytes[at];

		bytes[at] = random >> 24;
		if (error_dropped(profile_read(bytes, i % 4 ? size : at, NULL, &file)))
			refused++;
		else
			assert_null(
				groups_make(file.profile, file.symbols, GROUP_FUNC, NULL, &groups));
		bytes[at] = before;
	}
	assert_true(refused > 100);
}

static void a_file_that_is_no_profile_is_refused(void **state)
{
	struct fixture *f = *state;
	struct profile_file file;
	struct error *err = profile_read("hello, world", 12, NULL, &file);

	assert_int_equal(err->code, ERROR_CORRUPT);
	error_destroy(err);
	err = profile_read(f->packed, f->size / 2, NULL, &file);
	assert_int_equal(err->code, ERROR_CORRUPT);
	error_destroy(err);
}

static void groups_hold_all_time(void **state)
{
	static const enum group_key keys[] = {GROUP_ROOT, GROUP_STATE, GROUP_WAIT, GROUP_LABEL};
	struct fixture *f = *state;

	for (size_t k = 0; k < 4; k++) {
		_cleanup_groups_ struct groups groups = {0};
		uint64_t total = 0, states = 0;

		assert_null(groups_make(f->made.profile, f->symbols, keys[k], "user", &groups));
		for (size_t i = 0; i < groups.count; i++) {
			total += groups.items[i].total_ns;
			for (int s = 0; s < PROFILE_STATES; s++)
				states += groups.items[i].state_ns[s];
			if (i)
				assert_true(groups.items[i].total_ns <=
					    groups.items[i - 1].total_ns);
		}
		assert_int_equal(total, groups.total_ns);
		assert_int_equal(states, groups.total_ns);
	}
}

static void functions_have_their_own_time_once(void **state)
{
	struct fixture *f = *state;
	_cleanup_groups_ struct groups groups = {0};
	uint64_t self = 0;

	assert_null(groups_make(f->made.profile, f->symbols, GROUP_FUNC, NULL, &groups));
	for (size_t i = 0; i < groups.count; i++) {
		self += groups.items[i].self_ns;
		assert_true(groups.items[i].self_ns <= groups.items[i].total_ns);
		assert_true(groups.items[i].total_ns <= groups.total_ns);
	}
	assert_int_equal(self, groups.total_ns);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(folded_states_read_back_with_their_times),
		cmocka_unit_test(folded_stacks_without_states_have_none),
		cmocka_unit_test(written_profile_reads_back_equal),
		cmocka_unit_test(a_profile_without_functions_is_raw),
		cmocka_unit_test(symbolized_raw_profile_equals_the_direct_one),
		cmocka_unit_test(a_damaged_profile_is_read_or_refused),
		cmocka_unit_test(a_file_that_is_no_profile_is_refused),
		cmocka_unit_test(groups_hold_all_time),
		cmocka_unit_test(functions_have_their_own_time_once),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
