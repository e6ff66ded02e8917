/* Looks at two processes at the same time, each in a thread of its own:
 *
 *	two_targets PID PID
 *
 * Each thread opens its target, takes a snapshot and records, ten times, and prints how many
 * goroutines it saw in main.waitForChannel. For sanitizers: tests/e2e/test_library.py.
 */
#include <gospect/gospect.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 10

static struct gospect_error *count(struct gospect_snapshot *snapshot, size_t *ret)
{
	const struct gospect_goroutine *const *all;
	size_t n;
	struct gospect_error *err = gospect_snapshot_goroutines(snapshot, &all, &n);

	*ret = 0;
	for (size_t i = 0; !err && i < n; i++) {
		const struct gospect_stack *stack = all[i]->stack;

		for (size_t k = 0; k < stack->count; k++)
			*ret += !strcmp(stack->frames[k]->function, "main.waitForChannel");
	}
	return err;
}

static int drop(void *arg, const void *bytes, size_t size)
{
	*(size_t *)arg += size;
	return 0;
}

static struct gospect_error *look(struct gospect_target *target, size_t *ret)
{
	struct gospect_snapshot *snapshot = NULL;
	struct gospect_error *err = gospect_snapshot_take(target, NULL, &snapshot);
	size_t written = 0;

	if (!err)
		err = count(snapshot, ret);
	for (int format = GOSPECT_TEXT; !err && format <= GOSPECT_HTML; format++)
		err = gospect_snapshot_write(snapshot, (enum gospect_format)format, 0,
					     gospect_sink_function(drop, &written));
	gospect_snapshot_destroy(snapshot);
	return err;
}

static struct gospect_error *record(struct gospect_target *target)
{
	const struct gospect_record_options options = {.size = sizeof(options), .duration = 0.1};
	struct gospect_profile *profile = NULL;
	struct gospect_error *err = gospect_record(target, &options, &profile);
	size_t written = 0;

	if (!err)
		err = gospect_profile_write(profile, GOSPECT_PPROF,
					    gospect_sink_function(drop, &written));
	gospect_profile_destroy(profile);
	return err;
}

static struct gospect_error *one_round(int pid)
{
	struct gospect_target *target = NULL;
	struct gospect_error *err = gospect_target_open_process(pid, NULL, &target);
	size_t waiting = 0;

	if (!err)
		err = look(target, &waiting);
	if (!err)
		err = record(target);
	gospect_target_close(target);
	if (!err)
		printf("%d: %zu in main.waitForChannel\n", pid, waiting);
	return err;
}

static void *all_rounds(void *pid)
{
	struct gospect_error *err = NULL;

	for (int i = 0; !err && i < ROUNDS; i++)
		err = one_round(atoi(pid));
	if (!err)
		return NULL;
	fprintf(stderr, "two_targets: %s\n", gospect_error_message(err));
	gospect_error_destroy(err);
	return pid;
}

int main(int argc, char **argv)
{
	void *failed[2] = {argv, argv};
	pthread_t thread;

	if (argc != 3 || pthread_create(&thread, NULL, all_rounds, argv[1]))
		return 2;
	failed[0] = all_rounds(argv[2]);
	pthread_join(thread, &failed[1]);
	return failed[0] || failed[1];
}
