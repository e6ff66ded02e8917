#include "base/unit_test.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "profile/merge.h"
#include "profile/profile_symbols.h"
#include "profile/read.h"

/* All words of a program belong to one function. */
static size_t frames_of(const void *function, uint64_t pc, struct go_frame *ret, size_t max)
{
	ret[0] = (struct go_frame){.function = function, .file = "main.go", .line = (int)pc & 0xff};
	return 1;
}

struct program {
	struct profile *profile;
	struct profile_symbols *symbols;
};

/* One sample at 0x401010, labelled, and one of the pseudo word [running]. */
static struct program made(const char *function, const char *build_id, const char *key)
{
	static const uint64_t pcs[] = {0x401010 | STACK_PC_EXACT}, running[] = {STACK_PC_RUNNING};
	const struct symbol_source source = {frames_of, function};
	struct program made = {.profile = profile_create()};
	struct profile *p = made.profile;
	struct profile_label label = {intern_string(&p->strings, key),
				      intern_string(&p->strings, "own")};
	struct profile_sample sample = {.pcs = pcs,
					.depth = 1,
					.count = 3,
					.wall_ns = 30,
					.idle_ns = 7,
					.labels = &label,
					.label_count = 1,
					.state = PROFILE_WAITING,
					.wait = intern_string(&p->strings, "select")};
	struct profile_mapping mapping = {0x400000, 0x500000, 0, "/bin/it", (char *)build_id};

	assert_null(profile_add(p, &sample));
	sample = (struct profile_sample){.pcs = running, .depth = 1, .count = 1, .wall_ns = 10};
	assert_null(profile_add(p, &sample));
	assert_null(profile_add_mapping(p, &mapping));
	assert_null(profile_add_comment(p, "rate: 100 Hz"));
	p->time_ns = 1000;
	p->duration_ns = 500;
	assert_null(symbols_create(p, &source, &made.symbols));
	return made;
}

static void add(struct program *to, struct program from, const char *name, const char *pid)
{
	const struct merge_label labels[] = {{"command", name}, {"pid", pid}};
	const struct merge_program program = {name, labels, ARRAY_SIZE(labels)};

	assert_null(merge_add(to->profile, to->symbols, &program, from.profile, from.symbols));
	profile_symbols_destroy(from.symbols);
	profile_destroy(from.profile);
}

static struct program merged(void)
{
	struct program to = {.profile = profile_create()};

	assert_null(merge_begin(to.profile, &to.symbols));
	add(&to, made("main.one", "aa", "zone"), "one", "11");
	add(&to, made("main.two", "bb", "pid"), "two", "22");
	return to;
}

static void drop(struct program *p)
{
	profile_symbols_destroy(p->symbols);
	profile_destroy(p->profile);
}

static const char *function_of(const struct program *p, size_t i)
{
	struct go_frame frames[4];
	size_t n;

	profile_stack_frames(p->symbols, &p->profile->samples[i], frames, ARRAY_SIZE(frames), &n);
	assert_int_equal(n, 1);
	return frames[0].function;
}

static const char *label_of(const struct profile *p, size_t i, const char *key)
{
	const struct profile_sample *s = &p->samples[i];

	for (uint32_t j = 0; j < s->label_count; j++)
		if (!strcmp(intern_get(&p->strings, s->labels[j].key), key))
			return intern_get(&p->strings, s->labels[j].value);
	return NULL;
}

static void one_address_in_two_programs_has_two_functions(void **state)
{
	struct program p = merged();

	(void)state;
	assert_int_equal(p.profile->count, 4);
	assert_string_equal(function_of(&p, 0), "main.one");
	assert_string_equal(function_of(&p, 1), "[running]");
	assert_string_equal(function_of(&p, 2), "main.two");
	assert_string_equal(function_of(&p, 3), "[running]");
	drop(&p);
}

static void samples_keep_their_values_and_get_the_labels_of_their_program(void **state)
{
	struct program p = merged();
	const struct profile_sample *s = &p.profile->samples[0];

	(void)state;
	assert_int_equal(s->wall_ns, 30);
	assert_int_equal(s->count, 3);
	assert_int_equal(s->idle_ns, 7);
	assert_string_equal(intern_get(&p.profile->strings, s->wait), "select");
	assert_string_equal(label_of(p.profile, 0, "pid"), "11");
	assert_string_equal(label_of(p.profile, 1, "command"), "one");
	assert_string_equal(label_of(p.profile, 0, "zone"), "own");
	assert_string_equal(label_of(p.profile, 2, "pid"), "22");
	assert_string_equal(label_of(p.profile, 2, "label.pid"), "own");
	assert_string_equal(p.profile->comments[1], "two: rate: 100 Hz");
	assert_int_equal(p.profile->duration_ns, 500);
	drop(&p);
}

static void each_word_knows_its_address_and_its_mapping(void **state)
{
	struct program p = merged();

	(void)state;
	assert_int_equal(p.profile->mapping_count, 2);
	for (size_t i = 0; i < 2; i++) {
		struct profile_word w =
			profile_word_of(p.profile, p.profile->samples[2 * i].pcs[0]);

		assert_int_equal(w.address, 0x401010);
		assert_int_equal(w.mapping, i + 1);
	}
	assert_string_equal(p.profile->mappings[1].build_id, "bb");
	drop(&p);
}

static char *written(const struct profile_format *format, const struct program *p, size_t *size)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, size);

	assert_null(format->write(p->profile, p->symbols, out));
	fclose(out);
	return text;
}

static void folded_stacks_begin_with_their_program(void **state)
{
	struct program p = merged();
	size_t size;
	char *text;

	(void)state;
	for (size_t i = 0; i < p.profile->count; i++)
		p.profile->samples[i].wall_ns *= 1000;
	text = written(&profile_format_folded, &p, &size);
	assert_string_equal(text, "one;[running] 10\none;main.one 30\n"
				  "two;[running] 10\ntwo;main.two 30\n");
	free(text);
	drop(&p);
}

static void a_pprof_file_of_two_programs_is_read_again(void **state)
{
	struct profile_file file = {0};
	struct program p = merged(), again;
	size_t size;
	char *bytes = written(&profile_format_pprof, &p, &size);

	(void)state;
	assert_null(profile_read(bytes, size, NULL, &file));
	again = (struct program){file.profile, file.symbols};
	assert_string_equal(function_of(&again, 0), "main.one");
	assert_string_equal(function_of(&again, 2), "main.two");
	assert_int_equal(file.profile->samples[0].idle_ns, 0);
	profile_file_release(&file);
	free(bytes);
	bytes = written(&profile_format_pprof_whole, &p, &size);
	assert_null(profile_read(bytes, size, NULL, &file));
	assert_int_equal(file.profile->samples[0].idle_ns, 7);
	profile_file_release(&file);
	free(bytes);
	drop(&p);
}

#define MS 1000000ull

/* One that began at this time, with a sample in the first so many ms, and a line of source. */
static struct program began(uint64_t at_ms, uint64_t ms, const char *line)
{
	struct program p = made("main.one", "aa", "zone");

	p.profile->time_ns = at_ms * MS;
	p.profile->duration_ns = 1000 * MS;
	assert_null(timeline_add(&p.profile->timeline, 0, 0, ms * MS, ms * MS));
	assert_true(source_fragments_add(&p.profile->sources, "main.go", 7, 1, strdup(line),
					 strlen(line)));
	assert_true(source_fragments_add(&p.profile->sources, line, 1, 1, strdup("x\n"), 2));
	return p;
}

static void expect_time(const struct profile *p, uint32_t row, uint32_t first, uint32_t end)
{
	struct timeline_step *steps;
	size_t count, i = 0;

	assert_int_equal(p->timeline.width_ns, 10 * MS);
	assert_null(timeline_steps(&p->timeline, &steps, &count));
	while (i < count && steps[i].row != row)
		i++;
	assert_in_range(i + 1, 1, count - 1);
	assert_int_equal(steps[i].column, first);
	assert_int_equal(steps[i].ns, 10 * MS);
	assert_int_equal(steps[i + 1].column, end);
	assert_int_equal(steps[i + 1].ns, 0);
	free(steps);
}

static void recordings_at_the_same_time_have_one_time_axis(void **state)
{
	struct program p = {.profile = profile_create()};
	struct profile_file file = {0};
	size_t size;
	char *bytes;

	(void)state;
	assert_null(merge_begin(p.profile, &p.symbols));
	add(&p, began(5000, 100, "a\n"), "one", "11");
	add(&p, began(4950, 30, "b\n"), "two", "22");
	add(&p, began(5020, 50, "c\n"), "three", "33");
	expect_time(p.profile, 0, 5, 15);
	expect_time(p.profile, 2, 0, 3);
	expect_time(p.profile, 4, 7, 12);
	/* Of one file of two programs there is one version. */
	assert_int_equal(p.profile->sources.count, 4);
	assert_string_equal(p.profile->sources.items[0].file, "main.go");
	assert_memory_equal(p.profile->sources.items[0].text, "a\n", 2);
	bytes = written(&profile_format_pprof_whole, &p, &size);
	assert_null(profile_read(bytes, size, NULL, &file));
	expect_time(file.profile, 0, 5, 15);
	expect_time(file.profile, 4, 7, 12);
	profile_file_release(&file);
	free(bytes);
	add(&p, began(9000, 50, "d\n"), "on another day", "44");
	assert_int_equal(p.profile->timeline.width_ns, 0);
	drop(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_address_in_two_programs_has_two_functions),
		cmocka_unit_test(samples_keep_their_values_and_get_the_labels_of_their_program),
		cmocka_unit_test(each_word_knows_its_address_and_its_mapping),
		cmocka_unit_test(folded_stacks_begin_with_their_program),
		cmocka_unit_test(a_pprof_file_of_two_programs_is_read_again),
		cmocka_unit_test(recordings_at_the_same_time_have_one_time_axis),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
