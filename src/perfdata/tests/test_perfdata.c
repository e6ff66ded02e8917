#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

#include "base/unit_test.h"
#include "perfdata/perfdata.h"
#include "tests/made_file.h"

struct read {
	struct profile_file file;
	struct perfdata_remarks remarks;
	struct error *err;
};

static void read_made(const struct made_file *f, size_t size, struct read *ret)
{
	/* Of exactly that size, so that a sanitizer sees what lies behind. */
	uint8_t *copy = malloc(size ? size : 1);

	memcpy(copy, f->bytes, size);
	*ret = (struct read){0};
	ret->err = perfdata_read(copy, size, NULL, &ret->file, &ret->remarks);
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
	assert_true(has_remark(r, "/nowhere/first (process 10, first) is not here"));
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

static void lost_samples_are_said(void **state)
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

static void what_cannot_be_used_is_refused(void **state)
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

/* xorshift: the same bytes each time. */
static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
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

static void no_byte_does_harm(void **state)
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
		cmocka_unit_test(samples_belong_to_the_process_of_their_time),
		cmocka_unit_test(a_pipe_says_the_same),
		cmocka_unit_test(packed_records_say_the_same),
		cmocka_unit_test(equal_addresses_of_two_processes_are_different_words),
		cmocka_unit_test(an_unfinished_file_is_used_as_far_as_it_goes),
		cmocka_unit_test(every_truncation_is_read_or_refused),
		cmocka_unit_test(lost_samples_are_said),
		cmocka_unit_test(what_cannot_be_used_is_refused),
		cmocka_unit_test(no_byte_does_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
