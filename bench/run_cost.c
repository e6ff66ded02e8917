/*
 * Runs a command and reports its cost, from its start to its end.
 *
 * 	run_cost FILE COMMAND [ARGUMENT...]
 *
 * writes one line of JSON to FILE: when it started (since 1970), wall and CPU time, all in
 * nanoseconds, and the largest resident set (what /proc/PID/status calls VmHWM) in KB. The exit
 * status is the command's; SIGINT and SIGTERM are passed on.
 *
 * The kernel counts to a process what it had before exec, too: started by an interpreter, anything
 * small would seem to have the interpreter's memory.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

static volatile pid_t child;

static void pass_on(int number)
{
	if (child > 0)
		kill(child, number);
}

static uint64_t nanoseconds(struct timeval t)
{
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_usec * 1000u;
}

/* The status as the shell says it. */
static int exit_status(int status)
{
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void run(char **command)
{
	execvp(command[0], command);
	fprintf(stderr, "run_cost: %s: %s\n", command[0], strerror(errno));
	_exit(127);
}

static int wait_for_end(struct rusage *usage)
{
	int status;

	while (wait4(child, &status, 0, usage) < 0)
		if (errno != EINTR)
			return 127;
	return exit_status(status);
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = pass_on};
	struct rusage usage = {0};
	uint64_t start, date;
	FILE *out;
	int status;

	if (argc < 3) {
		fprintf(stderr, "run_cost: usage: run_cost FILE COMMAND [ARGUMENT...]\n");
		return 2;
	}
	out = fopen(argv[1], "we");
	if (!out) {
		fprintf(stderr, "run_cost: %s: %s\n", argv[1], strerror(errno));
		return 2;
	}
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	date = clock_read(CLOCK_REALTIME);
	start = clock_now();
	child = fork();
	if (!child)
		run(argv + 2);
	status = wait_for_end(&usage);
	fprintf(out,
		"{\"start_ns\": %" PRIu64 ", \"wall_ns\": %" PRIu64 ", \"cpu_ns\": %" PRIu64
		", \"rss_kb\": %ld}\n",
		date, clock_now() - start,
		nanoseconds(usage.ru_utime) + nanoseconds(usage.ru_stime), usage.ru_maxrss);
	return fclose(out) ? 2 : status;
}
