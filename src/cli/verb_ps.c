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

struct listing {
	size_t shown;
	int write_errno;
};

static int print_row(void *arg, const struct gospect_go_process *p)
{
	char goroutines[24] = "-", threads[24] = "-";
	struct listing *l = arg;

	if (!l->shown++)
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
	l->write_errno = fflush(stdout) ? errno : 0;
	return l->write_errno;
}

static struct error *run(int argc, char **argv, int *ret)
{
	const struct gospect_processes_options how = {.size = sizeof(how), .remark = say_remark};
	struct listing l = {0};
	size_t denied = 0;
	struct error *err;
	bool help;

	err = parse_options(&argp, "ps", argc, argv, NULL, &help);
	if (err || help)
		return err;
	err = library_error(gospect_processes_each(&how, print_row, &l, &denied));
	if (err)
		return err;
	if (l.write_errno)
		return error_errno(ERROR_FAILED, l.write_errno, "cannot write to standard output");
	if (!denied && !l.shown)
		say("no Go process found");
	return NULL;
}

const struct verb verb_ps = {"ps", "the Go processes of this machine", run};
