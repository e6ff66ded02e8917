#include <errno.h>
#include <gospect/processes.h>
#include <stdio.h>

#include "base/printable.h"
#include "cli/cli.h"

static const struct argp argp = {NULL,
				 NULL,
				 "",
				 "Lists the Go processes of this machine: pid, Go version, build, "
				 "goroutines, threads, command. It finds them by their executable, "
				 "not by their name.\v"
				 "Examples:\n"
				 "  gospect ps\n"
				 "  sudo gospect ps",
				 NULL,
				 NULL,
				 NULL};

static int print_row(void *arg, const struct gospect_go_process *p)
{
	char goroutines[24] = "-", threads[24] = "-";
	size_t *shown = arg;

	if (!(*shown)++)
		printf("%7s  %-12s %-22s %10s %7s  %s\n", "PID", "GO", "BUILD", "GOROUTINES",
		       "THREADS", "COMMAND");
	if (p->goroutines >= 0)
		snprintf(goroutines, sizeof(goroutines), "%ld", p->goroutines);
	if (p->threads)
		snprintf(threads, sizeof(threads), "%lu", p->threads);
	printable_line(stdout, "%7d  %-12s %-22s %10s %7s  %s", p->pid,
		       *p->go_version ? p->go_version : "-", p->build, goroutines, threads,
		       p->command);
	if (*p->problem)
		printable_line(stdout, "%7s  %s", "", p->problem);
	fflush(stdout);
	return 0;
}

static struct error *run(int argc, char **argv, int *ret)
{
	const struct gospect_processes_options how = {.size = sizeof(how), .remark = say_remark};
	size_t shown = 0, denied = 0;
	struct error *err;
	bool help;

	err = parse_options(&argp, "ps", argc, argv, NULL, &help);
	if (err || help)
		return err;
	err = library_error(gospect_processes_each(&how, print_row, &shown, &denied));
	if (err)
		return err;
	if (ferror(stdout) || fflush(stdout))
		return error_errno(ERROR_FAILED, errno, "cannot write to standard output");
	if (!denied && !shown)
		say("no Go process found");
	return NULL;
}

const struct verb verb_ps = {"ps", "the Go processes of this machine", run};
