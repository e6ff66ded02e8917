#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

#include "base/unit_test.h"
#include "perfdata/map_list.h"
#include "perfdata/perf_sample.h"
#include "perfdata/perfdata.h"
#include "tests/made_file.h"

struct read {
	struct profile_file file;
	struct perfdata_remarks remarks;
	struct error *err;
};

static void read_made(const struct made_file *f, size_t size, struct read *ret)
{
	/* Exactly of that size, so that a sanitizer detects reads beyond it. */
	uint8_t *copy = malloc(size ? size : 1);

	memcpy(copy, f->bytes, size);
	*ret = (struct read){0};
	ret->err = perfdata_read(copy, size, NULL, NULL, &ret->file, &ret->remarks);
	free(copy);
}

static void read_release(struct read *r)
{
	profile_file_release(&r->file);
	perfdata_remarks_release(&r->remarks);
	error_destroy(r->err);
}

static const char *label(const struct profile *p, const struct profile_sample *s, const char *key)
{
	for (uint32_t i = 0; i < s->label_count; i++)
		if (!strcmp(intern_get(&p->strings, s->labels[i].key), key))
			return intern_get(&p->strings, s->labels[i].value);
	return "";
}

static bool has_remark(const struct read *r, const char *text)
{
	for (size_t i = 0; i < r->remarks.count; i++)
		if (strstr(r->remarks.lines[i], text))
			return true;
	return false;
}

static const uint64_t callers[] = {0x401010, 0x401020, 0};

/* A process, a child of it, a new program in that one's place; out of order. */
static void make_processes(struct made_file *f)
{
	made_comm(f, 10, "first", 0);
	made_mmap(f, 10, 0x400000, 0x2000, "/nowhere/first", 0);
	made_sample(f, 11, 400, 0x401001, callers);
	made_sample(f, 10, 100, 0x401000, callers);
	made_fork(f, 11, 10, 200);
	made_sample(f, 11, 250, 0x401000, callers);
	made_comm(f, 11, "second", 300);
	made_sample(f, 0, 350, 0xffffffff81000000, callers);
}

static void assert_processes(struct read *r)
{
	const struct profile *p = r->file.profile;
	const char *names[] = {"first", "first", "second"}, *pids[] = {"10", "11", "11"};

	assert_null(r->err);
	assert_int_equal(p->count, 3);
	for (size_t i = 0; i < 3; i++) {
		assert_string_equal(label(p, &p->samples[i], "process"), names[i]);
		assert_string_equal(label(p, &p->samples[i], "pid"), pids[i]);
		assert_int_equal(p->samples[i].count, 1);
		assert_int_equal(p->samples[i].cpu_ns, 10000000);
		assert_int_equal(p->samples[i].state, PROFILE_RUNNING);
	}
	assert_true(has_remark(r, "/nowhere/first (process 10, first) does not exist here"));
}

static void samples_belong_to_the_process_of_their_time(void **state)
{
	struct made_file f;
	struct read r;

	made_begin(&f, false);
	make_processes(&f);
	made_end(&f, "x86_64");
	read_made(&f, f.size, &r);
	assert_processes(&r);
	read_release(&r);
	free(f.bytes);
}

static void a_pipe_says_the_same(void **state)
{
	struct made_file f;
	struct read r;

	made_begin(&f, true);
	make_processes(&f);
	made_end(&f, "");
	read_made(&f, f.size, &r);
	assert_processes(&r);
	read_release(&r);
	free(f.bytes);
}

static void packed_records_say_the_same(void **state)
{
	struct made_file f;
	struct read r;
	size_t from;

	made_begin(&f, false);
	from = f.size;
	make_processes(&f);
	made_pack(&f, from);
	made_end(&f, "x86_64");
	read_made(&f, f.size, &r);
	assert_processes(&r);
	read_release(&r);
	free(f.bytes);
}

static void equal_addresses_of_two_processes_are_different_words(void **state)
{
	struct made_file f;
	struct read r;
	const struct profile *p;

	made_begin(&f, false);
	made_sample(&f, 10, 100, 0x401000, callers);
	made_sample(&f, 11, 101, 0x401000, callers);
	made_end(&f, "x86_64");
	read_made(&f, f.size, &r);
	p = r.file.profile;
	assert_int_equal(p->count, 2);
	assert_int_equal(stack_pc_address(p->samples[0].pcs[0]), 0x401000);
	assert_int_not_equal(p->samples[0].pcs[0], p->samples[1].pcs[0]);
	read_release(&r);
	free(f.bytes);
}

static void an_unfinished_file_is_used_as_far_as_it_goes(void **state)
{
	struct made_file f;
	struct read r;

	made_begin(&f, false);
	make_processes(&f); /* data.size is 0: perf was killed */
	read_made(&f, f.size - 100, &r);
	assert_null(r.err);
	assert_int_equal(r.file.profile->count, 3);
	assert_true(has_remark(&r, "perf did not finish"));
	read_release(&r);
	free(f.bytes);
}

static void every_truncation_is_read_or_refused(void **state)
{
	struct made_file f;

	made_begin(&f, false);
	make_processes(&f);
	made_end(&f, "x86_64");
	for (size_t size = 0; size < f.size; size++) {
		struct read r;

		read_made(&f, size, &r);
		assert_true(r.err || r.remarks.count);
		read_release(&r);
	}
	free(f.bytes);
}

static void lost_samples_are_reported(void **state)
{
	const uint64_t lost[] = {77, 5, 0, 0, 0};
	struct made_file f;
	struct read r;

	made_begin(&f, false);
	made_sample(&f, 10, 100, 0x401000, callers);
	made_record(&f, PERF_RECORD_LOST, 0, lost, sizeof(lost));
	made_end(&f, "x86_64");
	read_made(&f, f.size, &r);
	assert_true(has_remark(&r, "perf lost 5 samples"));
	read_release(&r);
	free(f.bytes);
}

static void assert_refused(const struct made_file *f, const char *why)
{
	struct read r;

	read_made(f, f->size, &r);
	assert_non_null(r.err);
	assert_non_null(strstr(r.err->message, why));
	read_release(&r);
}

static void unusable_recording_is_refused(void **state)
{
	struct made_file f;

	made_begin(&f, false);
	made_end(&f, "x86_64");
	assert_refused(&f, "without samples");
	memcpy(f.bytes, "2ELIFREP", 8);
	assert_refused(&f, "big-endian");
	memcpy(f.bytes, "PERFFILE", 8);
	assert_refused(&f, "newer");
	free(f.bytes);

	made_begin(&f, false);
	made_sample(&f, 10, 100, 0x401000, callers);
	made_end(&f, "s390x");
	assert_refused(&f, "s390x");
	free(f.bytes);

	made_begin(&f, false);
	made_sample(&f, 0, 100, 0x401000, callers);
	made_end(&f, "x86_64");
	assert_refused(&f, "idle");
	free(f.bytes);
}

static void nested_compression_is_skipped_and_reported(void **state)
{
	struct made_file f;
	struct read r;
	size_t from;

	made_begin(&f, false);
	made_sample(&f, 10, 100, 0x401000, callers);
	from = f.size;
	make_processes(&f);
	made_pack(&f, from);
	made_pack(&f, from);
	made_end(&f, "x86_64");
	read_made(&f, f.size, &r);
	assert_null(r.err);
	assert_int_equal(r.file.profile->count, 1);
	assert_true(has_remark(&r, "truncated or corrupt"));
	read_release(&r);
	free(f.bytes);
}

static void mappings_without_end_are_left_out_and_reported(void **state)
{
	struct made_file f;
	struct read r;

	made_begin(&f, false);
	made_comm(&f, 10, "first", 0);
	for (uint64_t i = 0; i < MAP_LIST_MOST + 7; i++)
		made_mmap(&f, 10, (i + 1) << 13, 0x1000, "//anon", i);
	made_sample(&f, 10, 1 << 20, 0x401000, callers);
	made_end(&f, "x86_64");
	read_made(&f, f.size, &r);
	assert_null(r.err);
	assert_true(has_remark(&r, "too many mappings of code: 7"));
	read_release(&r);
	free(f.bytes);
}

static void a_process_that_ended_leaves_room_for_others(void **state)
{
	struct made_file f;
	struct read r;

	made_begin(&f, false);
	for (uint32_t pid = 100; pid < 140; pid++) {
		made_fork(&f, pid, 10, 2 * pid);
		for (uint64_t i = 0; i < 30000; i++)
			made_mmap(&f, pid, (i + 1) << 13, 0x1000, "//anon", 2 * pid);
		made_exit(&f, pid, 2 * pid + 1);
	}
	made_sample(&f, 10, 1 << 20, 0x401000, callers);
	made_end(&f, "x86_64");
	read_made(&f, f.size, &r);
	assert_null(r.err);
	assert_false(has_remark(&r, "ignore"));
	read_release(&r);
	free(f.bytes);
}

/* The samples of a rewritten file: the stack alone, in the order of their times. */
static void assert_rewritten(const char *bytes, size_t size)
{
	static const uint64_t ips[] = {0x401000, 0x401000, 0xffffffff81000000, 0x401001};
	_cleanup_perf_file_ struct perf_file file = {0};
	size_t samples = 0;

	assert_null(perf_file_read(bytes, size, &file));
	assert_false(file.cut || file.unfinished);
	assert_int_equal(file.attr_count, 1);
	assert_int_equal(file.attrs[0].sample_type &
				 (PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER),
			 0);
	for (size_t i = 0; i < file.count; i++) {
		struct recorded_sample s;

		if (file.records[i].type != PERF_RECORD_SAMPLE)
			continue;
		assert_true(perf_sample_parse(&file.attrs[0], MACHINE_AMD64, &file.records[i], &s));
		assert_int_equal(s.user_end, file.records[i].size);
		assert_int_equal(s.ip, ips[samples]);
		/* The chain of an idle CPU has no kernel's part here, so nothing is left. */
		assert_int_equal(s.chain_count > 0, s.pid > 0);
		samples++;
	}
	assert_int_equal(samples, 4);
}

static void assert_same_stacks(const struct profile *a, const struct profile *b)
{
	assert_int_equal(a->count, b->count);
	for (size_t i = 0; i < a->count; i++) {
		assert_int_equal(a->samples[i].depth, b->samples[i].depth);
		assert_memory_equal(a->samples[i].pcs, b->samples[i].pcs,
				    a->samples[i].depth * sizeof(*a->samples[i].pcs));
	}
}

static void a_rewritten_file_has_each_stack(void **state)
{
	for (int kind = 0; kind < 4; kind++) {
		_cleanup_perfdata_remarks_ struct perfdata_remarks remarks = {0};
		struct made_file f, again;
		struct read r, first;
		char *bytes = NULL;
		size_t size, from;
		FILE *out = open_memstream(&bytes, &size);

		made_begin(&f, kind & 1);
		from = f.size;
		make_processes(&f);
		if (kind & 2)
			made_pack(&f, from);
		made_end(&f, kind & 1 ? "" : "x86_64");
		assert_null(perfdata_rewrite(f.bytes, f.size, NULL, NULL, out, &remarks));
		fclose(out);
		assert_rewritten(bytes, size);
		again = (struct made_file){.bytes = (uint8_t *)bytes, .size = size};
		read_made(&again, size, &r);
		assert_processes(&r);
		read_made(&f, f.size, &first);
		assert_same_stacks(first.file.profile, r.file.profile);
		read_release(&first);
		read_release(&r);
		free(f.bytes);
		free(bytes);
	}
}

/* xorshift: the same bytes each time. */
static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* The number of the mapping at some addresses, or 0. */
enum { LISTS = 3, PLACES = 64 };

static void assert_lies_there(const struct map_list *l, const uint64_t *expected)
{
	uint64_t found[PLACES] = {0}, before = 0;

	for (size_t i = 0; l && i < l->live; i++) {
		const struct recorded_map *map = &l->items[l->order[i]];

		assert_true(before <= map->start && map->start < map->end);
		before = map->end;
		for (uint64_t at = map->start; at < map->end; at++)
			found[at] = map->offset;
	}
	/* A mapping that another covers in part is gone as a whole. */
	assert_memory_equal(found, expected, sizeof(found));
}

static void forget(uint64_t *places, uint64_t number)
{
	for (size_t i = 0; number && i < PLACES; i++)
		places[i] = places[i] == number ? 0 : places[i];
}

static void lists_of_mappings_are_what_was_mapped(void **state)
{
	uint64_t seed = 4711, places[LISTS][PLACES] = {0};
	struct map_list *lists[LISTS] = {0};
	size_t seen[LISTS] = {0};

	for (uint64_t number = 1; number < 20000; number++) {
		size_t i = next_random(&seed) % LISTS, other = next_random(&seed) % LISTS;
		uint64_t start = next_random(&seed) % PLACES;
		uint64_t end = start + 1 + next_random(&seed) % (PLACES - start);
		struct recorded_map map = {start, end, number, ""};

		if (number % 50 == 0 && i != other) {
			map_list_release(lists[i]);
			lists[i] = map_list_share(lists[other]);
			seen[i] = 0;
			memcpy(places[i], places[other], sizeof(places[i]));
		}
		assert_true(map_list_add(&lists[i], &map, &seen[i]));
		assert_true(lists[i]->count <= 64 + 2 * PLACES + 1);
		assert_true(seen[i] <= lists[i]->count);
		for (uint64_t at = start; at < end; at++)
			forget(places[i], places[i][at]);
		for (uint64_t at = start; at < end; at++)
			places[i][at] = number;
		for (; seen[i] < lists[i]->count; seen[i]++)
			;
		for (size_t k = 0; k < LISTS; k++)
			assert_lies_there(lists[k], places[k]);
	}
	for (size_t i = 0; i < LISTS; i++)
		map_list_release(lists[i]);
}

static void mutate(struct made_file *f, uint64_t *seed)
{
	static const uint64_t values[] = {0,      1,          7,          8,          0xff,
					  0xffff, 0x7fffffff, UINT32_MAX, 1ull << 63, UINT64_MAX};
	size_t changes = 1 + next_random(seed) % 4;

	while (changes--) {
		size_t at = next_random(seed) % f->size, n = 1 << next_random(seed) % 4;
		uint64_t value = values[next_random(seed) % 10];

		if (n > f->size - at)
			n = f->size - at;
		if (next_random(seed) & 1)
			f->bytes[at] ^= 1 << next_random(seed) % 8;
		else
			memcpy(f->bytes + at, &value, n);
	}
}

static void damaged_bytes_are_harmless(void **state)
{
	uint64_t seed = 73753;
	size_t from, read = 0;

	for (int i = 0; i < 6000; i++) {
		struct made_file f;
		struct read r;

		made_begin(&f, i % 3 == 1);
		from = f.size;
		make_processes(&f);
		if (i % 3 == 2)
			made_pack(&f, from);
		made_end(&f, "x86_64");
		mutate(&f, &seed);
		read_made(&f, f.size, &r);
		read += !r.err;
		read_release(&r);
		free(f.bytes);
	}
	/* Most bytes are not vital: then it is not the header alone that was tried. */
	assert_true(read > 1000 && read < 6000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_rewritten_file_has_each_stack),
		cmocka_unit_test(samples_belong_to_the_process_of_their_time),
		cmocka_unit_test(a_pipe_says_the_same),
		cmocka_unit_test(packed_records_say_the_same),
		cmocka_unit_test(equal_addresses_of_two_processes_are_different_words),
		cmocka_unit_test(an_unfinished_file_is_used_as_far_as_it_goes),
		cmocka_unit_test(every_truncation_is_read_or_refused),
		cmocka_unit_test(lost_samples_are_reported),
		cmocka_unit_test(unusable_recording_is_refused),
		cmocka_unit_test(nested_compression_is_skipped_and_reported),
		cmocka_unit_test(mappings_without_end_are_left_out_and_reported),
		cmocka_unit_test(a_process_that_ended_leaves_room_for_others),
		cmocka_unit_test(lists_of_mappings_are_what_was_mapped),
		cmocka_unit_test(damaged_bytes_are_harmless),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
