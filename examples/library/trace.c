/* Traces a process for two seconds, into a file for go tool trace:
 *
 *	cc trace.c $(pkg-config --cflags --libs gospect) -o trace && ./trace PID FILE
 */
#include <gospect/gospect.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	struct gospect_trace_options options = {.size = sizeof(options), .duration = 2};
	struct gospect_target *target = NULL;
	struct gospect_trace *trace = NULL;
	struct gospect_error *err;
	int status;

	if (argc != 3)
		return 2;
	options.path = argv[2];
	err = gospect_trace_create(&options, &trace);
	if (!err)
		err = gospect_target_open_process(atoi(argv[1]), NULL, &target);
	if (!err)
		err = gospect_trace_begin(trace, target, NULL);
	if (!err)
		err = gospect_trace_run(trace);
	if (err)
		fprintf(stderr, "trace: %s\n", gospect_error_message(err));
	else
		printf("%" PRIu64 " events\n", gospect_trace_stats(trace)->events);
	status = err != NULL;
	gospect_error_destroy(err);
	gospect_trace_destroy(trace);
	gospect_target_close(target);
	return status;
}
