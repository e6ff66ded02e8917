#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/unit_test.h"
#include "oncpu/cpu_sample.h"
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

static struct cpu_sample snapshot;
static struct target_range pieces[CPU_SAMPLE_PIECES];

/* The set {key: value}, as the program copies a slice. */
static size_t make_slice(const char *key, const char *value)
{
	size_t sizes[] = {strlen(key), strlen(value)};

	memset(&snapshot, 0, sizeof(snapshot));
	snapshot.labels = LABELS;
	snapshot.stage = CPU_SAMPLE_LIST;
	memcpy(snapshot.head, (uint64_t[]){LIST, 1, 1}, 24);
	memcpy(snapshot.bytes, (uint64_t[]){KEY, sizes[0], VALUE, sizes[1]}, 32);
	memcpy(snapshot.bytes + 32, key, sizes[0]);
	memcpy(snapshot.bytes + 32 + sizes[0], value, sizes[1]);
	snapshot.used = 32 + sizes[0] + sizes[1];
	return offsetof(struct cpu_sample, bytes) + snapshot.used;
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

	assert_true(cpu_sample_is_whole(&snapshot, size));
	assert_int_equal(cpu_sample_label_pieces(&snapshot, false, pieces), 4);
	assert_piece(0, LABELS, 24, snapshot.head);
	assert_piece(1, LIST, 32, snapshot.bytes);
	assert_piece(2, KEY, 4, "work");
	assert_piece(3, VALUE, 4, "list");
}

static void strings_end_where_the_text_does(void **state)
{
	make_slice("work", "list");
	snapshot.used = 32 + 7;
	assert_int_equal(cpu_sample_label_pieces(&snapshot, false, pieces), 3);
	snapshot.used = 32;
	assert_int_equal(cpu_sample_label_pieces(&snapshot, false, pieces), 2);
	snapshot.used = 31;
	assert_int_equal(cpu_sample_label_pieces(&snapshot, false, pieces), 1);
	snapshot.stage = CPU_SAMPLE_HEAD;
	assert_int_equal(cpu_sample_label_pieces(&snapshot, false, pieces), 1);
	snapshot.stage = CPU_SAMPLE_NOTHING;
	assert_int_equal(cpu_sample_label_pieces(&snapshot, false, pieces), 0);
}

static void forged_lengths_stay_in_bounds(void **state)
{
	make_slice("work", "list");
	snapshot.head[1] = UINT64_MAX;
	memset(snapshot.bytes, 0xff, sizeof(snapshot.bytes));
	snapshot.used = sizeof(snapshot.bytes);
	assert_int_equal(cpu_sample_label_pieces(&snapshot, false, pieces),
			 2 + CPU_SAMPLE_TEXT / CPU_SAMPLE_STRING);
	snapshot.used = UINT64_MAX;
	assert_false(cpu_sample_is_whole(&snapshot, sizeof(snapshot)));
	snapshot.used = 0;
	snapshot.parked_size = CPU_SAMPLE_PARKED + 1;
	assert_false(cpu_sample_is_whole(&snapshot, sizeof(snapshot)));
	assert_false(cpu_sample_is_whole(&snapshot, 8));
}

static void a_map_is_its_address_header_bucket_and_strings(void **state)
{
	memset(&snapshot, 0, sizeof(snapshot));
	snapshot.labels = LABELS;
	snapshot.stage = CPU_SAMPLE_LIST;
	memcpy(snapshot.head, (uint64_t[]){LIST, 1, 0, LIST + 4096}, 32);
	snapshot.bytes[0] = 1; /* empty */
	snapshot.bytes[3] = 200;
	memcpy(snapshot.bytes + 8 + 16 * 3, (uint64_t[]){KEY, 4}, 16);
	memcpy(snapshot.bytes + 8 + 16 * (8 + 3), (uint64_t[]){VALUE, 4}, 16);
	memcpy(snapshot.bytes + CPU_SAMPLE_BUCKET, "worklist", 8);
	snapshot.used = CPU_SAMPLE_BUCKET + 8;
	assert_int_equal(cpu_sample_label_pieces(&snapshot, true, pieces), 5);
	assert_piece(0, LABELS, 8, snapshot.head);
	assert_piece(1, LIST, 48, snapshot.head + 1);
	assert_piece(2, LIST + 4096, CPU_SAMPLE_BUCKET, snapshot.bytes);
	assert_piece(3, KEY, 4, "work");
	assert_piece(4, VALUE, 4, "list");
}

/* A made-up goroutine; the kernel's program takes this thread to work for it. */
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
	const struct cpu_sample *m = sample->note;

	seen++;
	if (!m || !cpu_sample_is_whole(m, sample->note_size) || m->g != (uintptr_t)made.g ||
	    m->goid != 4711 || m->sched_sp != (uintptr_t)made.stack || m->ran != 200 ||
	    m->left_fp != (HERE == MACHINE_AMD64 ? 0xc0de : 0) ||
	    m->labels != (uintptr_t)made.slice || m->parked_size != CPU_SAMPLE_PARKED ||
	    memcmp(m->parked, made.stack, CPU_SAMPLE_PARKED) != 0) {
		wrong++;
		return NULL;
	}
	wrong += cpu_sample_label_pieces(m, false, pieces) != 5 ||
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
	struct sample_program *program = NULL;
	struct perf_program in;
	_cleanup_perf_events_ struct perf_events *events = NULL;
	struct perf_options options = {.hz = 1000,
				       .machine = HERE,
				       .stack_size = 1024,
				       .program = &in};
	pid_t tid = getpid();
	struct error *err;

	make_goroutine();
	skip_if_not_here(sample_program_open(&lay, HERE, &program));
	sample_program_set_m(program, tid, (uintptr_t)made.m);
	in = (struct perf_program){sample_program_fd(program), sample_program_outputs(program)};
	err = perf_events_open(tid, &tid, 1, &options, &events);
	if (err)
		sample_program_close(program);
	skip_if_not_here(err);
	spend_cpu_time();
	assert_null(perf_events_drain(events, take, NULL));
	sample_program_close(program);
	assert_null(perf_events_no_program(events));
	assert_true(seen > 30);
	assert_int_equal(wrong, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_slice_is_header_labels_and_strings),
		cmocka_unit_test(strings_end_where_the_text_does),
		cmocka_unit_test(forged_lengths_stay_in_bounds),
		cmocka_unit_test(a_map_is_its_address_header_bucket_and_strings),
		cmocka_unit_test(the_kernel_copies_goroutine_labels_and_stack_at_each_sample),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
