#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/unit_test.h"
#include "oncpu/moment.h"
#include "oncpu/perf_events.h"

#if defined(__aarch64__)
#define HERE MACHINE_ARM64
#else
#define HERE MACHINE_AMD64
#endif

#define LABELS 0xc000100000ull
#define LIST 0xc000200000ull
#define KEY 0xc000300000ull
#define VALUE 0xc000400000ull
#define SPACE 100000000u /* ns of CPU time: some 100 samples */

static struct moment moment;
static struct target_range pieces[MOMENT_PIECES];

/* The set {key: value}, as the program copies a slice. */
static size_t make_slice(const char *key, const char *value)
{
	size_t sizes[] = {strlen(key), strlen(value)};

	memset(&moment, 0, sizeof(moment));
	moment.labels = LABELS;
	moment.stage = MOMENT_LIST;
	memcpy(moment.head, (uint64_t[]){LIST, 1, 1}, 24);
	memcpy(moment.bytes, (uint64_t[]){KEY, sizes[0], VALUE, sizes[1]}, 32);
	memcpy(moment.bytes + 32, key, sizes[0]);
	memcpy(moment.bytes + 32 + sizes[0], value, sizes[1]);
	moment.used = 32 + sizes[0] + sizes[1];
	return offsetof(struct moment, bytes) + moment.used;
}

static void assert_piece(size_t i, uint64_t address, size_t size, const void *bytes)
{
	assert_int_equal(pieces[i].address, address);
	assert_int_equal(pieces[i].size, size);
	assert_memory_equal(pieces[i].buffer, bytes, size);
}

static void a_slice_is_header_labels_and_strings(void **state)
{
	size_t size = make_slice("work", "list");

	assert_true(moment_is_whole(&moment, size));
	assert_int_equal(moment_label_pieces(&moment, false, pieces), 4);
	assert_piece(0, LABELS, 24, moment.head);
	assert_piece(1, LIST, 32, moment.bytes);
	assert_piece(2, KEY, 4, "work");
	assert_piece(3, VALUE, 4, "list");
}

static void strings_end_where_the_text_does(void **state)
{
	make_slice("work", "list");
	moment.used = 32 + 7;
	assert_int_equal(moment_label_pieces(&moment, false, pieces), 3);
	moment.used = 32;
	assert_int_equal(moment_label_pieces(&moment, false, pieces), 2);
	moment.used = 31;
	assert_int_equal(moment_label_pieces(&moment, false, pieces), 1);
	moment.stage = MOMENT_HEAD;
	assert_int_equal(moment_label_pieces(&moment, false, pieces), 1);
	moment.stage = MOMENT_NOTHING;
	assert_int_equal(moment_label_pieces(&moment, false, pieces), 0);
}

static void what_lies_of_its_lengths_stays_inside(void **state)
{
	make_slice("work", "list");
	moment.head[1] = UINT64_MAX;
	memset(moment.bytes, 0xff, sizeof(moment.bytes));
	moment.used = sizeof(moment.bytes);
	assert_int_equal(moment_label_pieces(&moment, false, pieces),
			 2 + MOMENT_TEXT / MOMENT_STRING);
	moment.used = UINT64_MAX;
	assert_false(moment_is_whole(&moment, sizeof(moment)));
	moment.used = 0;
	moment.parked_size = MOMENT_PARKED + 1;
	assert_false(moment_is_whole(&moment, sizeof(moment)));
	assert_false(moment_is_whole(&moment, 8));
}

static void a_map_is_its_address_header_bucket_and_strings(void **state)
{
	memset(&moment, 0, sizeof(moment));
	moment.labels = LABELS;
	moment.stage = MOMENT_LIST;
	memcpy(moment.head, (uint64_t[]){LIST, 1, 0, LIST + 4096}, 32);
	moment.bytes[0] = 1; /* empty */
	moment.bytes[3] = 200;
	memcpy(moment.bytes + 8 + 16 * 3, (uint64_t[]){KEY, 4}, 16);
	memcpy(moment.bytes + 8 + 16 * (8 + 3), (uint64_t[]){VALUE, 4}, 16);
	memcpy(moment.bytes + MOMENT_BUCKET, "worklist", 8);
	moment.used = MOMENT_BUCKET + 8;
	assert_int_equal(moment_label_pieces(&moment, true, pieces), 5);
	assert_piece(0, LABELS, 8, moment.head);
	assert_piece(1, LIST, 48, moment.head + 1);
	assert_piece(2, LIST + 4096, MOMENT_BUCKET, moment.bytes);
	assert_piece(3, KEY, 4, "work");
	assert_piece(4, VALUE, 4, "list");
}

/* A goroutine of ours, for which the thread works as far as the kernel's program can tell. */
static struct {
	uint8_t g[512];
	uint8_t m[4096];
	uint8_t g0[512];
	uint64_t own_stack[2];
	uint64_t slice[3];
	struct {
		const char *key;
		uint64_t key_size;
		const char *value;
		uint64_t value_size;
	} labels[3];
	uint64_t stack[256];
} made;

static struct golayout lay;
static size_t seen, wrong;

static void put(uint8_t *object, int32_t offset, const void *value)
{
	uint64_t word = (uintptr_t)value;

	memcpy(object + offset, &word, sizeof(word));
}

static void make_goroutine(void)
{
	lay = (struct golayout){.minor = 27, .n = *golayout_table(27, 0)};
	put(made.m, lay.n.m_curg, made.g);
	put(made.g, lay.n.g_sched_sp, made.stack);
	put(made.g, lay.n.g_labels, made.slice);
	put(made.g, lay.n.g_goid, (void *)4711);
	made.g[lay.n.g_tracking_seq] = 200;
	put(made.m, lay.n.m_g0, made.g0);
	put(made.g0, lay.n.g_sched_sp, made.own_stack + 2);
	made.own_stack[0] = 0xc0de;
	made.slice[0] = (uintptr_t)made.labels;
	made.slice[1] = made.slice[2] = 2;
	made.labels[0].key = "user";
	made.labels[0].key_size = 4;
	made.labels[0].value = "";
	made.labels[1].key = "work";
	made.labels[1].key_size = 4;
	made.labels[1].value = "list";
	made.labels[1].value_size = 4;
	for (size_t i = 0; i < ARRAY_SIZE(made.stack); i++)
		made.stack[i] = i;
}

static struct error *take(void *arg, const struct perf_sample *sample)
{
	const struct moment *m = sample->note;

	seen++;
	if (!m || !moment_is_whole(m, sample->note_size) || m->g != (uintptr_t)made.g ||
	    m->goid != 4711 || m->sched_sp != (uintptr_t)made.stack || m->ran != 200 ||
	    m->left_fp != (HERE == MACHINE_AMD64 ? 0xc0de : 0) ||
	    m->labels != (uintptr_t)made.slice || m->parked_size != MOMENT_PARKED ||
	    memcmp(m->parked, made.stack, MOMENT_PARKED) != 0) {
		wrong++;
		return NULL;
	}
	wrong += moment_label_pieces(m, false, pieces) != 5 ||
		 memcmp(pieces[3].buffer, "work", 4) != 0 || pieces[4].size != 4 ||
		 memcmp(pieces[4].buffer, "list", 4) != 0;
	return NULL;
}

static void spend_cpu_time(void)
{
	struct timespec now;
	uint64_t begin = 0, ns = 0;

	while (!begin || ns - begin < SPACE) {
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
		ns = now.tv_sec * 1000000000ull + now.tv_nsec;
		begin = begin ? begin : ns;
	}
}

static void skip_if_not_here(struct error *err)
{
	bool failed = err != NULL;

	if (failed)
		print_message("skipped: %s\n", err->message);
	error_destroy(err);
	if (failed)
		skip();
}

static void the_kernel_copies_goroutine_labels_and_stack_at_each_sample(void **state)
{
	struct moment_program *program = NULL;
	struct perf_program in;
	_cleanup_perf_events_ struct perf_events *events = NULL;
	struct perf_options options = {.hz = 1000,
				       .machine = HERE,
				       .stack_size = 1024,
				       .program = &in};
	pid_t tid = getpid();
	struct error *err;

	make_goroutine();
	skip_if_not_here(moment_program_open(&lay, HERE, &program));
	moment_program_tell(program, tid, (uintptr_t)made.m);
	in = (struct perf_program){moment_program_fd(program), moment_program_outputs(program)};
	err = perf_events_open(tid, &tid, 1, &options, &events);
	if (err)
		moment_program_close(program);
	skip_if_not_here(err);
	spend_cpu_time();
	assert_null(perf_events_drain(events, take, NULL));
	moment_program_close(program);
	assert_null(perf_events_no_program(events));
	assert_true(seen > 30);
	assert_int_equal(wrong, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_slice_is_header_labels_and_strings),
		cmocka_unit_test(strings_end_where_the_text_does),
		cmocka_unit_test(what_lies_of_its_lengths_stays_inside),
		cmocka_unit_test(a_map_is_its_address_header_bucket_and_strings),
		cmocka_unit_test(the_kernel_copies_goroutine_labels_and_stack_at_each_sample),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
