#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "base/unit_test.h"
#include "gotrace/model.h"
#include "made_up_schedule.h"

static const char *const names[OP_COUNT] = {
	[OP_PROC_START] = "ProcStart",
	[OP_PROC_STOP] = "ProcStop",
	[OP_PROC_STEAL] = "ProcSteal",
	[OP_PROC_STATUS] = "ProcStatus",
	[OP_GO_CREATE] = "GoCreate",
	[OP_GO_START] = "GoStart",
	[OP_GO_DESTROY] = "GoDestroy",
	[OP_GO_STOP] = "GoStop",
	[OP_GO_BLOCK] = "GoBlock",
	[OP_GO_UNBLOCK] = "GoUnblock",
	[OP_GO_SYSCALL_BEGIN] = "GoSyscallBegin",
	[OP_GO_SYSCALL_END] = "GoSyscallEnd",
	[OP_GO_SYSCALL_END_BLOCKED] = "GoSyscallEndBlocked",
	[OP_GO_STATUS] = "GoStatus",
	[OP_GO_CREATE_SYSCALL] = "GoCreateSyscall",
	[OP_GO_DESTROY_SYSCALL] = "GoDestroySyscall",
	[OP_STW_BEGIN] = "STWBegin",
	[OP_STW_END] = "STWEnd",
	[OP_GC_ACTIVE] = "GCActive",
	[OP_GC_BEGIN] = "GCBegin",
	[OP_GC_END] = "GCEnd",
	[OP_REGION_BEGIN] = "RegionBegin",
	[OP_REGION_END] = "RegionEnd",
	[OP_PROCS_CHANGE] = "ProcsChange",
	[OP_HEAP_ALLOC] = "HeapAlloc",
};

struct fixture {
	struct strbuf text;
	uint64_t last;
	struct trace_model *model;
};

static struct error *write_down(void *arg, const struct trace_step *step)
{
	struct fixture *f = arg;

	assert_true(step->ns > f->last);
	f->last = step->ns;
	assert_true(step->op < OP_COUNT || step->op == OP_LABELS || step->op == OP_PARKED ||
		    step->op == OP_CPU_SAMPLE || step->op == OP_COUNTER);
	if (step->op == OP_LABELS)
		strbuf_addf(&f->text, "%ld:Labels %lu %lu%s\n", (long)step->m,
			    (unsigned long)step->arg[0], (unsigned long)step->arg[1],
			    step->arg[2] == TRACE_LABELS_BY_ITSELF ? "" : " told");
	else if (step->op == OP_PARKED)
		strbuf_addf(&f->text, "%ld:Parked %lu for %lu at %lu\n", (long)step->m,
			    (unsigned long)step->arg[0], (unsigned long)step->arg[2],
			    (unsigned long)step->arg[3]);
	else if (step->op == OP_COUNTER)
		strbuf_addf(&f->text, "%ld:Counter %lu is %lu\n", (long)step->m,
			    (unsigned long)step->arg[0], (unsigned long)step->arg[1]);
	else if (step->op == OP_CPU_SAMPLE)
		strbuf_addf(&f->text, "%ld:Sample %lu at %lu\n", (long)step->m,
			    (unsigned long)step->arg[0], (unsigned long)step->arg[1]);
	else
		strbuf_addf(&f->text, "%ld:%s %lu\n", (long)step->m, names[step->op] ?: "?",
			    (unsigned long)step->arg[0]);
	return NULL;
}

static struct error *begin_generation(void *arg)
{
	strbuf_adds(&((struct fixture *)arg)->text, "--\n");
	return NULL;
}

static int set_up(void **state)
{
	static struct fixture f;
	struct trace_sink sink = {write_down, begin_generation, &f};

	f = (struct fixture){.text = STRBUF_INIT};
	*state = &f;
	return trace_model_create(&sink, &f.model) ? -1 : 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	trace_model_destroy(f->model);
	strbuf_release(&f->text);
	return 0;
}

static void happens(struct fixture *f, enum trace_kind kind, uint64_t m, uint32_t p, uint64_t g,
		    uint64_t arg)
{
	struct trace_event ev =
		{.ns = f->last + 100, .m = m, .p = p, .g = g, .arg = arg, .kind = kind};

	assert_null(trace_model_add(f->model, &ev));
}

static void expect(struct fixture *f, const char *text)
{
	assert_string_equal(f->text.data, text);
	strbuf_reset(&f->text);
}

/* Thread 7 runs goroutine 1 on P 0. */
static void begin(struct fixture *f)
{
	happens(f, TRACE_P_STATUS, 7, 0, 0, PROC_RUNNING);
	happens(f, TRACE_G_STATUS, 7, 0, 1, TRACE_RUNNING);
	expect(f, "7:ProcStatus 0\n7:GoStatus 1\n");
}

static void complete_events_are_written_unchanged(void **state)
{
	struct fixture *f = *state;

	begin(f);
	happens(f, TRACE_CREATE, 7, 0, 2, 0);
	happens(f, TRACE_BLOCK, 7, 0, 1, 0);
	happens(f, TRACE_START, 7, 0, 2, 0);
	happens(f, TRACE_UNBLOCK, 7, 0, 1, 0);
	happens(f, TRACE_SYSCALL, 7, 0, 2, 0);
	happens(f, TRACE_SYSCALL_EXIT, 7, 0, 2, 0);
	happens(f, TRACE_END, 7, 0, 2, 0);
	happens(f, TRACE_P_STOP, 7, 0, 0, 0);
	expect(f, "7:GoCreate 2\n7:GoBlock 0\n7:GoStart 2\n7:GoUnblock 1\n7:GoSyscallBegin 1\n"
		  "7:GoSyscallEnd 0\n7:GoDestroy 0\n7:ProcStop 0\n");
	assert_int_equal(trace_model_stats(f->model).reconciled, 0);
	assert_int_equal(trace_model_stats(f->model).dropped, 0);
}

static void a_processor_taken_in_a_system_call_is_stolen(void **state)
{
	struct fixture *f = *state;

	begin(f);
	happens(f, TRACE_SYSCALL, 7, 0, 1, 0);
	happens(f, TRACE_P_STEAL, 8, 0, 0, 0);
	happens(f, TRACE_P_START, 8, 0, 0, 0);
	happens(f, TRACE_SYSCALL_EXIT, 7, 1, 1, 0);
	expect(f,
	       "7:GoSyscallBegin 1\n8:ProcSteal 0\n8:ProcStart 0\n7:ProcStatus 1\n7:ProcStart 1\n"
	       "7:GoSyscallEndBlocked 0\n7:GoStart 1\n");
	assert_int_equal(trace_model_stats(f->model).reconciled, 0);
}

static void a_system_call_that_lost_its_processor_ends_with_the_next_one(void **state)
{
	struct fixture *f = *state;

	begin(f);
	happens(f, TRACE_SYSCALL, 7, 0, 1, 0);
	happens(f, TRACE_P_STEAL, 8, 0, 0, 0);
	happens(f, TRACE_SYSCALL_EXIT, 7, TRACE_NO_P, 1, 0);
	happens(f, TRACE_P_START, 7, 0, 0, 0);
	happens(f, TRACE_SYSCALL, 7, 0, 1, 0);
	expect(f, "7:GoSyscallBegin 1\n8:ProcSteal 0\n7:ProcStart 0\n7:GoSyscallEndBlocked 0\n"
		  "7:GoStart 1\n7:GoSyscallBegin 4\n");
	assert_int_equal(trace_model_stats(f->model).dropped, 0);
}

static void a_start_on_another_thread_takes_the_goroutine_from_the_one_before(void **state)
{
	struct fixture *f = *state;

	begin(f);
	happens(f, TRACE_START, 8, 1, 1, 0);
	expect(f, "8:ProcStatus 1\n8:ProcStart 1\n7:GoStop 4294967295\n8:GoStart 1\n");
	assert_int_equal(trace_model_stats(f->model).reconciled, 1);
}

static void an_unknown_goroutine_has_a_status_first_and_later_is_created(void **state)
{
	struct fixture *f = *state;

	begin(f);
	happens(f, TRACE_UNBLOCK, 7, 0, 20, 0);
	expect(f, "7:GoStatus 20\n7:GoUnblock 20\n");
	assert_null(trace_model_new_generation(f->model, f->last));
	strbuf_reset(&f->text);
	happens(f, TRACE_UNBLOCK, 7, 0, 21, 0);
	expect(f, "7:GoCreate 21\n");
}

static void a_generation_begins_with_the_state_of_all(void **state)
{
	struct fixture *f = *state;

	begin(f);
	happens(f, TRACE_GC_BEGIN, 7, 0, 1, 0);
	assert_null(trace_model_new_generation(f->model, f->last));
	expect(f, "7:GCBegin 1\n--\n7:ProcStatus 0\n7:GoStatus 1\n");
	happens(f, TRACE_GC_END, 7, 0, 1, 0);
	expect(f, "7:GCActive 2\n7:GCEnd 3\n");
}

static void counters_wait_for_a_thread_and_are_in_every_generation(void **state)
{
	struct fixture *f = *state;

	happens(f, TRACE_GOMAXPROCS, TRACE_NO_M, TRACE_NO_P, 0, 2);
	happens(f, TRACE_HEAP_ALLOC, TRACE_NO_M, TRACE_NO_P, 0, 4096);
	happens(f, TRACE_HEAP_ALLOC, TRACE_NO_M, TRACE_NO_P, 0, 8192);
	happens(f, TRACE_P_STATUS, 7, 0, 0, PROC_RUNNING);
	happens(f, TRACE_G_STATUS, 7, 0, 1, TRACE_RUNNING);
	happens(f, TRACE_CREATE, 7, 0, 2, 0);
	expect(f,
	       "7:ProcStatus 0\n7:HeapAlloc 8192\n7:GoStatus 1\n7:ProcsChange 2\n7:GoCreate 2\n");
	assert_null(trace_model_new_generation(f->model, f->last));
	strbuf_reset(&f->text);
	happens(f, TRACE_BLOCK, 7, 0, 1, 0);
	expect(f, "7:ProcsChange 2\n7:HeapAlloc 8192\n7:GoBlock 0\n");
}

static void generation_waits_for_the_world_to_start(void **state)
{
	struct fixture *f = *state;

	begin(f);
	happens(f, TRACE_STW_BEGIN, 7, 0, 1, 0);
	assert_null(trace_model_new_generation(f->model, f->last));
	happens(f, TRACE_STW_END, 7, 0, 1, 0);
	expect(f, "7:STWBegin 0\n7:STWEnd 0\n");
}

static void ranges_are_closed_before_their_goroutine_stops(void **state)
{
	struct fixture *f = *state;

	begin(f);
	happens(f, TRACE_STW_BEGIN, 7, 0, 1, 0);
	happens(f, TRACE_END, 7, 0, 1, 0);
	expect(f, "7:STWBegin 0\n7:STWEnd 0\n7:GoDestroy 0\n");
}

static void a_region_ends_those_inside_it_whose_ends_were_lost(void **state)
{
	struct fixture *f = *state;

	begin(f);
	happens(f, TRACE_REGION_BEGIN, 7, 0, 1, 5);
	happens(f, TRACE_REGION_BEGIN, 7, 0, 1, 6);
	happens(f, TRACE_REGION_END, 7, 0, 1, 5);
	happens(f, TRACE_REGION_END, 7, 0, 1, 9);
	expect(f,
	       "7:RegionBegin 5\n7:RegionBegin 6\n7:RegionEnd 6\n7:RegionEnd 5\n7:RegionEnd 9\n");
}

static void calls(struct fixture *f, uint32_t function, uint64_t frame)
{
	struct trace_event ev = {.ns = f->last + 100,
				 .m = 7,
				 .g = 1,
				 .arg = frame,
				 .text = function,
				 .kind = TRACE_CALL};

	assert_null(trace_model_add(f->model, &ev));
}

static void returns(struct fixture *f, uint32_t function, uint64_t frame)
{
	struct trace_event ev = {.ns = f->last + 100,
				 .m = 7,
				 .g = 1,
				 .arg = frame,
				 .text = function,
				 .kind = TRACE_RETURN};

	assert_null(trace_model_add(f->model, &ev));
}

static void regions_and_calls_end_with_their_goroutine(void **state)
{
	struct fixture *f = *state;

	begin(f);
	happens(f, TRACE_REGION_BEGIN, 7, 0, 1, 5);
	happens(f, TRACE_CALL, 7, 0, 1, 64);
	happens(f, TRACE_END, 7, 0, 1, 0);
	expect(f, "7:RegionBegin 5\n7:RegionBegin 0\n7:RegionEnd 0\n7:RegionEnd 5\n"
		  "7:GoDestroy 0\n");
}

static void regions_beyond_the_limit_are_refused_and_counted(void **state)
{
	struct fixture *f = *state;

	begin(f);
	for (uint64_t i = 1; i <= 1024; i++)
		happens(f, TRACE_REGION_BEGIN, 7, 0, 1, i);
	strbuf_reset(&f->text);
	happens(f, TRACE_REGION_BEGIN, 7, 0, 1, 2000);
	expect(f, "");
	assert_int_equal(trace_model_stats(f->model).refused, 1);
	happens(f, TRACE_REGION_END, 7, 0, 1, 1024);
	happens(f, TRACE_REGION_BEGIN, 7, 0, 1, 2001);
	expect(f, "7:RegionEnd 1024\n7:RegionBegin 2001\n");
}

static void threads_beyond_the_limit_are_refused_and_those_that_do_nothing_forgotten(void **state)
{
	struct fixture *f = *state;

	begin(f);
	for (uint64_t i = 100; i < 1000000; i++)
		happens(f, TRACE_UNBLOCK, i, 0, 1, 0);
	assert_in_range(trace_model_stats(f->model).refused, 1, 1000);
	happens(f, TRACE_BLOCK, 7, 0, 1, 0);
	assert_non_null(strstr(f->text.data, "7:GoBlock"));
}

static void a_stop_of_the_world_that_does_not_end_is_ended(void **state)
{
	struct fixture *f = *state;

	begin(f);
	happens(f, TRACE_STW_BEGIN, 7, 0, 1, 0);
	strbuf_reset(&f->text);
	for (size_t i = 0; i < 1u << 20; i++)
		assert_null(trace_model_new_generation(f->model, f->last + 1));
	expect(f, "");
	assert_null(trace_model_new_generation(f->model, f->last + 1));
	expect(f, "7:STWEnd 0\n--\n7:ProcStatus 0\n7:GoStatus 1\n");
}

static void goroutines_whose_ends_were_lost_are_buried(void **state)
{
	_cleanup_map_ struct map living = {0};
	struct fixture *f = *state;
	uint64_t ns;

	begin(f);
	for (uint64_t g = 2; g < 200; g++)
		happens(f, TRACE_CREATE, 7, 0, g, 0);
	ns = f->last + 1;
	happens(f, TRACE_CREATE, 7, 0, 200, 0);
	assert_non_null(map_at(&living, 1));
	assert_non_null(map_at(&living, 5));
	assert_null(trace_model_bury(f->model, &living, ns));
	strbuf_reset(&f->text);
	assert_null(trace_model_new_generation(f->model, f->last + 1));
	assert_non_null(strstr(f->text.data, "GoStatus 1\n"));
	assert_non_null(strstr(f->text.data, "GoStatus 5\n"));
	assert_non_null(strstr(f->text.data, "GoStatus 200\n"));
	assert_null(strstr(f->text.data, "GoStatus 2\n"));
	assert_null(strstr(f->text.data, "GoStatus 199\n"));
}

static void calls_within_each_other_are_regions(void **state)
{
	struct fixture *f = *state;

	begin(f);
	calls(f, 5, 100);
	calls(f, 5, 200);
	returns(f, 5, 200);
	calls(f, 6, 200);
	returns(f, 6, 200);
	returns(f, 5, 100);
	expect(f, "7:RegionBegin 0\n7:RegionBegin 0\n7:RegionEnd 0\n7:RegionBegin 0\n"
		  "7:RegionEnd 0\n7:RegionEnd 0\n");
	assert_int_equal(trace_model_stats(f->model).dropped, 0);
}

static void a_call_is_over_when_another_has_its_place(void **state)
{
	struct fixture *f = *state;

	begin(f);
	calls(f, 5, 100);
	happens(f, TRACE_REGION_BEGIN, 7, 0, 1, 9);
	calls(f, 6, 200);
	calls(f, 5, 100); /* a panic skipped the returns of both */
	calls(f, 6, 200);
	returns(f, 5, 100); /* of one */
	expect(f, "7:RegionBegin 0\n7:RegionBegin 9\n7:RegionBegin 0\n7:RegionEnd 0\n"
		  "7:RegionEnd 9\n7:RegionEnd 0\n7:RegionBegin 0\n7:RegionBegin 0\n"
		  "7:RegionEnd 0\n7:RegionEnd 0\n");
}

static void an_unmatched_return_is_emitted_if_nothing_is_open(void **state)
{
	struct fixture *f = *state;

	begin(f);
	returns(f, 5, 100);
	calls(f, 6, 50);
	returns(f, 5, 100);
	calls(f, 5, 200);
	returns(f, 5, 100); /* the one further in is over */
	returns(f, 6, 50);
	expect(f, "7:RegionEnd 0\n7:RegionBegin 0\n7:RegionBegin 0\n7:RegionEnd 0\n"
		  "7:RegionEnd 0\n");
	assert_int_equal(trace_model_stats(f->model).dropped, 2);
}

static void a_thread_of_c_comes_and_goes(void **state)
{
	struct fixture *f = *state;

	happens(f, TRACE_THREAD_ENTER, 9, TRACE_NO_P, 30, 0);
	happens(f, TRACE_SYSCALL_EXIT, 9, 0, 30, 0);
	happens(f, TRACE_SYSCALL, 9, 0, 30, 0);
	happens(f, TRACE_THREAD_LEAVE, 9, 0, 30, 0);
	expect(f, "9:GoCreateSyscall 30\n9:ProcStatus 0\n9:ProcStart 0\n9:GoSyscallEndBlocked 0\n"
		  "9:GoStart 30\n9:GoSyscallBegin 2\n9:ProcStop 0\n9:GoDestroySyscall 0\n");
}

static void has_labels(struct fixture *f, uint64_t m, uint64_t g, uint32_t text,
		       enum trace_labels_by by)
{
	struct trace_event ev = {.ns = f->last + 100,
				 .m = m,
				 .p = TRACE_NO_P,
				 .g = g,
				 .arg = by,
				 .text = text,
				 .kind = TRACE_LABELS};

	assert_null(trace_model_add(f->model, &ev));
}

static void labels_are_emitted_once_and_by_a_running_goroutine(void **state)
{
	struct fixture *f = *state;

	happens(f, TRACE_G_STATUS, TRACE_NO_M, TRACE_NO_P, 2, TRACE_WAITING);
	has_labels(f, TRACE_NO_M, 2, 5, TRACE_LABELS_BY_ANOTHER);
	expect(f, "-1:GoStatus 2\n");
	happens(f, TRACE_P_STATUS, 7, 0, 0, PROC_RUNNING);
	happens(f, TRACE_G_STATUS, 7, 0, 1, TRACE_RUNNING);
	expect(f, "7:ProcStatus 0\n7:GoStatus 1\n7:Labels 2 5 told\n");
	has_labels(f, 7, 1, 6, TRACE_LABELS_BY_ITSELF);
	has_labels(f, 7, 1, 6, TRACE_LABELS_BY_ITSELF);
	happens(f, TRACE_CREATE, 7, 0, 3, 0);
	has_labels(f, 7, 3, 6, TRACE_LABELS_BY_ANOTHER);
	has_labels(f, 7, 1, 0, TRACE_LABELS_BY_ITSELF);
	expect(f, "7:Labels 1 6\n7:GoCreate 3\n7:Labels 3 6 told\n7:Labels 1 0\n");
	has_labels(f, 7, 99, 6, TRACE_LABELS_BY_ANOTHER);
	assert_int_equal(trace_model_stats(f->model).dropped, 1);
}

static void a_generation_on_its_own_tells_labels_again(void **state)
{
	struct fixture *f = *state;
	struct trace_sink sink = {write_down, begin_generation, f, .separate = true};

	trace_model_destroy(f->model);
	assert_null(trace_model_create(&sink, &f->model));
	begin(f);
	has_labels(f, 7, 1, 6, TRACE_LABELS_BY_ITSELF);
	assert_null(trace_model_new_generation(f->model, f->last));
	happens(f, TRACE_CREATE, 7, 0, 3, 0);
	expect(f, "7:Labels 1 6\n--\n7:ProcStatus 0\n7:GoStatus 1\n7:Labels 1 6 told\n"
		  "7:GoCreate 3\n");
}

static void is_parked(struct fixture *f, uint64_t g, uint32_t stack, uint64_t ns)
{
	struct trace_event ev = {.ns = f->last + 100,
				 .m = TRACE_NO_M,
				 .p = TRACE_NO_P,
				 .g = g,
				 .arg = TRACE_WAITING,
				 .stack = stack,
				 .kind = TRACE_G_STATUS};

	assert_null(trace_model_add(f->model, &ev));
	ev.kind = TRACE_PARKED;
	ev.arg = ns;
	assert_null(trace_model_add(f->model, &ev));
}

#define BEGIN_HELPER(goid) \
	"2147483632:ProcStart 0\n2147483632:GoCreate " goid "\n2147483632:GoStart " goid "\n"
#define BY_HELPER                                                              \
	"2147483632:Labels 2 6 told\n2147483632:Parked 2 for 0 at 4\n"         \
	"2147483632:Parked 1 for 700 at 5\n2147483632:Parked 3 for 700 at 5\n" \
	"2147483632:GoDestroy 0\n2147483632:ProcStop 0\n"

/* Go's readers require a running goroutine for a log. */
static void where_none_runs_one_is_made_up_to_log(void **state)
{
	struct fixture *f = *state;
	struct trace_sink sink = {write_down, begin_generation, f, .separate = true,
				  .logs_run = true};

	trace_model_destroy(f->model);
	assert_null(trace_model_create(&sink, &f->model));
	is_parked(f, 3, 5, 700);
	is_parked(f, 2, 4, 0);
	is_parked(f, 1, 5, 700);
	has_labels(f, TRACE_NO_M, 2, 6, TRACE_LABELS_BY_ANOTHER);
	expect(f, "-1:GoStatus 3\n-1:GoStatus 2\n-1:GoStatus 1\n");
	assert_null(trace_model_new_generation(f->model, f->last));
	expect(f, "2147483632:ProcStatus 0\n" BEGIN_HELPER("4611686018427387904") BY_HELPER
	       "--\n-1:ProcStatus 0\n-1:GoStatus 1\n-1:GoStatus 2\n-1:GoStatus 3\n" BEGIN_HELPER(
		       "4611686018427387905") BY_HELPER);
	/* A goroutine that has moved is no longer where it was. */
	happens(f, TRACE_START, 7, 1, 3, 0);
	strbuf_reset(&f->text);
	assert_null(trace_model_new_generation(f->model, f->last));
	assert_non_null(strstr(f->text.data, "7:Parked 1 for 700 at 5\n"));
	assert_null(strstr(f->text.data, "Parked 3"));
	strbuf_reset(&f->text);
}

static void counts(struct fixture *f, enum trace_counter which, uint64_t value)
{
	struct trace_event ev = {.ns = f->last + 100,
				 .m = TRACE_NO_M,
				 .p = TRACE_NO_P,
				 .arg = which,
				 .arg2 = value,
				 .kind = TRACE_COUNTER};

	assert_null(trace_model_add(f->model, &ev));
}

static void logs_need_a_goroutine(struct fixture *f)
{
	struct trace_sink sink = {write_down, begin_generation, f, .separate = true,
				  .logs_run = true};

	trace_model_destroy(f->model);
	assert_null(trace_model_create(&sink, &f->model));
}

static void a_counter_of_the_kernel_waits_for_a_goroutine_that_runs(void **state)
{
	struct fixture *f = *state;

	logs_need_a_goroutine(f);
	counts(f, TRACE_COUNTER_CPU, 7);
	counts(f, TRACE_COUNTERS, 5);
	counts(f, TRACE_COUNTER_STEAL, 0);
	expect(f, "");
	happens(f, TRACE_START, 7, 0, 2, 0);
	happens(f, TRACE_UNBLOCK, 7, 0, 3, 0);
	assert_non_null(strstr(f->text.data, "7:Counter 0 is 7\n7:Counter 2 is 0\n"));
	strbuf_reset(&f->text);
	/* Each generation can be read without those before. */
	assert_null(trace_model_new_generation(f->model, f->last));
	happens(f, TRACE_UNBLOCK, 7, 0, 4, 0);
	assert_non_null(strstr(f->text.data, "7:Counter 0 is 7\n7:Counter 2 is 0\n"));
	strbuf_reset(&f->text);
}

#define COUNTED(goid, value)                                                             \
	"2147483632:ProcStart 0\n2147483632:GoCreate " goid "\n2147483632:GoStart " goid \
	"\n2147483632:Counter 0 is " value "\n2147483632:GoDestroy 0\n2147483632:ProcStop 0\n"

/* The last reading of an idle program comes when nothing runs any more. */
static void a_counter_of_the_kernel_is_not_lost_where_no_goroutine_runs(void **state)
{
	struct fixture *f = *state;

	logs_need_a_goroutine(f);
	counts(f, TRACE_COUNTER_CPU, 1);
	expect(f, "");
	counts(f, TRACE_COUNTER_CPU, 2);
	expect(f, "2147483632:ProcStatus 0\n" COUNTED("4611686018427387904", "1"));
	assert_null(trace_model_new_generation(f->model, f->last + 1000));
	assert_non_null(strstr(f->text.data, COUNTED("4611686018427387905", "2") "--\n"));
	strbuf_reset(&f->text);
	counts(f, TRACE_COUNTER_CPU, 3);
	strbuf_reset(&f->text);
	assert_null(trace_model_complete(f->model));
	expect(f, COUNTED("4611686018427387907", "3"));
	assert_null(trace_model_complete(f->model));
	expect(f, "");
}

static void is_sampled(struct fixture *f, uint64_t m, uint64_t start_pc, bool no_goroutine)
{
	struct trace_event ev = {.ns = f->last + 100,
				 .m = m,
				 .p = TRACE_NO_P,
				 .arg = start_pc,
				 .arg2 = no_goroutine,
				 .stack = 9,
				 .kind = TRACE_CPU_SAMPLE};

	assert_null(trace_model_add(f->model, &ev));
}

static void a_sample_is_of_the_goroutine_that_its_thread_runs(void **state)
{
	struct fixture *f = *state;

	begin(f);
	happens(f, TRACE_CREATE, 7, 0, 2, 0x1000);
	is_sampled(f, 7, 0, false);
	happens(f, TRACE_BLOCK, 7, 0, 1, 0);
	is_sampled(f, 7, 0x500, false);
	happens(f, TRACE_START, 7, 0, 2, 0);
	is_sampled(f, 7, 0x1000, false);
	is_sampled(f, 7, 0, true);
	is_sampled(f, 8, 0, false);
	/* Its stack is that of another goroutine: it has not switched yet. */
	is_sampled(f, 7, 0x500, false);
	happens(f, TRACE_SYSCALL, 7, 0, 2, 0);
	is_sampled(f, 7, 0x1000, false);
	expect(f, "7:GoCreate 2\n7:Sample 1 at 9\n7:GoBlock 0\n7:Sample 0 at 9\n7:GoStart 2\n"
		  "7:Sample 2 at 9\n7:Sample 0 at 9\n8:Sample 0 at 9\n7:Sample 0 at 9\n"
		  "7:GoSyscallBegin 1\n7:Sample 2 at 9\n");
	is_sampled(f, TRACE_NO_M, 0, false);
	expect(f, "");
}

static void meaningless_events_are_dropped(void **state)
{
	struct fixture *f = *state;

	happens(f, TRACE_KINDS, 7, 0, 1, 0);
	happens(f, TRACE_START, 7, UINT32_MAX - 1, 1, 0);
	happens(f, TRACE_START, TRACE_NO_M, 0, 1, 0);
	happens(f, TRACE_BLOCK, 7, 0, 0, 0);
	happens(f, TRACE_GC_END, 7, 0, 1, 0);
	expect(f, "");
	assert_int_equal(trace_model_stats(f->model).dropped, 5);
}

/* Go's reader checks the meaning of traces (tests/e2e/test_trace_format.py). This test checks that
 * times grow, and that freed memory is not read. */
static void any_schedule_makes_a_trace(void **state)
{
	struct fixture *f = *state;

	for (uint64_t seed = 0; seed < 60; seed++) {
		struct schedule_options options = {.seed = seed,
						   .events = 3000,
						   .lose = seed % 3 * 30,
						   .late_ns = seed % 2 * 500,
						   .nonsense = seed % 5 == 4,
						   .go126 = seed % 7 > 3,
						   .texts = 3,
						   .stacks = 3};
		size_t count;
		_cleanup_free_ struct trace_event *events = schedule_make(&options, &count);

		assert_non_null(events);
		tear_down(state);
		assert_int_equal(set_up(state), 0);
		for (size_t i = 0; i < count; i++) {
			assert_null(trace_model_add(f->model, &events[i]));
			if (i % 500 == 499)
				assert_null(trace_model_new_generation(f->model, events[i].ns));
		}
		assert_true(trace_model_stats(f->model).steps > 500);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(complete_events_are_written_unchanged),
		TEST(a_processor_taken_in_a_system_call_is_stolen),
		TEST(a_system_call_that_lost_its_processor_ends_with_the_next_one),
		TEST(a_start_on_another_thread_takes_the_goroutine_from_the_one_before),
		TEST(an_unknown_goroutine_has_a_status_first_and_later_is_created),
		TEST(a_generation_begins_with_the_state_of_all),
		TEST(counters_wait_for_a_thread_and_are_in_every_generation),
		TEST(generation_waits_for_the_world_to_start),
		TEST(ranges_are_closed_before_their_goroutine_stops),
		TEST(a_region_ends_those_inside_it_whose_ends_were_lost),
		TEST(regions_and_calls_end_with_their_goroutine),
		TEST(regions_beyond_the_limit_are_refused_and_counted),
		TEST(threads_beyond_the_limit_are_refused_and_those_that_do_nothing_forgotten),
		TEST(a_stop_of_the_world_that_does_not_end_is_ended),
		TEST(goroutines_whose_ends_were_lost_are_buried),
		TEST(calls_within_each_other_are_regions),
		TEST(a_call_is_over_when_another_has_its_place),
		TEST(an_unmatched_return_is_emitted_if_nothing_is_open),
		TEST(a_thread_of_c_comes_and_goes),
		TEST(labels_are_emitted_once_and_by_a_running_goroutine),
		TEST(a_generation_on_its_own_tells_labels_again),
		TEST(where_none_runs_one_is_made_up_to_log),
		TEST(a_counter_of_the_kernel_waits_for_a_goroutine_that_runs),
		TEST(a_counter_of_the_kernel_is_not_lost_where_no_goroutine_runs),
		TEST(a_sample_is_of_the_goroutine_that_its_thread_runs),
		TEST(meaningless_events_are_dropped),
		TEST(any_schedule_makes_a_trace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
