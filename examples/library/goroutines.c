/* Prints what every goroutine of a process is in:
 *
 *	cc goroutines.c $(pkg-config --cflags --libs gospect) -o goroutines && ./goroutines PID
 */
#include <gospect/gospect.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static struct gospect_error *print(struct gospect_snapshot *snapshot)
{
	const struct gospect_goroutine *const *all;
	size_t count;
	struct gospect_error *err = gospect_snapshot_goroutines(snapshot, &all, &count);

	for (size_t i = 0; !err && i < count; i++) {
		const struct gospect_stack *stack = all[i]->stack;

		printf("%" PRIu64 " [%s] %s\n", all[i]->id, all[i]->status,
		       stack->count ? stack->frames[0]->function : "?");
	}
	return err;
}

int main(int argc, char **argv)
{
	struct gospect_target *target = NULL;
	struct gospect_snapshot *snapshot = NULL;
	struct gospect_error *err =
		gospect_target_open_process(argc == 2 ? atoi(argv[1]) : 0, NULL, &target);
	int status;

	if (!err)
		err = gospect_snapshot_take(target, NULL, &snapshot);
	if (!err)
		err = print(snapshot);
	if (err)
		fprintf(stderr, "goroutines: %s\n", gospect_error_message(err));
	status = err != NULL;
	gospect_error_destroy(err);
	gospect_snapshot_destroy(snapshot);
	gospect_target_close(target);
	return status;
}
