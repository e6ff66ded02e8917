/* A worker does not delay its caller, even if a hostile target has taken it over. */
#include "lib/worker.h"

#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/unit_test.h"

#define SECOND 1000000000ull

static void close_all_and_stay(void *result, struct gospect_surgeon *surgeon, struct error *err)
{
	for (int fd = 0; fd < 1024; fd++)
		close(fd);
	for (volatile bool stays = true; stays;)
		;
}

static void answer(void *result, struct gospect_surgeon *surgeon, struct error *err)
{
	*(int *)result = 5;
	error_destroy(err);
}

static struct error *run(struct worker_job *job, pid_t *ret_pid, uint64_t *ret_ns)
{
	struct worker w = {.pipe = -1};
	uint64_t began = clock_now();
	struct error *err;

	assert_null(worker_start(&w, job, began + 60 * SECOND));
	*ret_pid = w.pid;
	err = worker_wait(&w);
	*ret_ns = clock_now() - began;
	assert_int_equal(w.pipe, -1);
	return err;
}

static void a_worker_that_closes_its_pipe_and_stays_is_ended(void **state)
{
	int result = 3;
	struct worker_job job = {.target = getpid(),
				 .memory = 512ull << 20,
				 .cpu_seconds = 40,
				 .work = close_all_and_stay,
				 .result = &result,
				 .size = sizeof(result)};
	uint64_t ns;
	pid_t pid;
	struct error *err = run(&job, &pid, &ns);

	assert_non_null(err);
	assert_int_equal(err->code, ERROR_CORRUPT);
	error_destroy(err);
	assert_true(ns < 20 * SECOND);
	assert_int_equal(kill(pid, 0), -1);
	assert_int_equal(result, 3);
}

static void a_result_is_taken(void **state)
{
	int result = 3;
	struct worker_job job = {.target = getpid(),
				 .memory = 512ull << 20,
				 .cpu_seconds = 40,
				 .work = answer,
				 .result = &result,
				 .size = sizeof(result)};
	uint64_t ns;
	pid_t pid;

	assert_null(run(&job, &pid, &ns));
	assert_int_equal(result, 5);
	assert_int_equal(kill(pid, 0), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_worker_that_closes_its_pipe_and_stays_is_ended),
		cmocka_unit_test(a_result_is_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
