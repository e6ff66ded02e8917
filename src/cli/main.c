#include <gospect/confine.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/mapped_file.h"
#include "cli/cli.h"
#include "cli/command.h"
#include "cli/stop.h"

/* In the order of the help; `group` begins a new group there. */
static const struct {
	const char *group;
	const struct verb *verb;
} verbs[] = {
	{"What is going on", &verb_why},
	{NULL, &verb_ps},
	{NULL, &verb_dump},
	{NULL, &verb_waits},
	{NULL, &verb_stack},
	{"Where the time goes", &verb_record},
	{NULL, &verb_top},
	{NULL, &verb_offcpu},
	{NULL, &verb_trace},
	{"Where the memory goes", &verb_memory},
	{NULL, &verb_heap},
	{NULL, &verb_leaks},
	{"All day", &verb_serve},
	{NULL, &verb_push},
	{NULL, &verb_watch},
	{"Recorded files and programs", &verb_report},
	{NULL, &verb_symbolize},
	{NULL, &verb_unwind_info},
	{"This machine", &verb_doctor},
};

static void print_help(void)
{
	printf("Usage: gospect VERB [OPTION...]\n"
	       "Shows what a running Go program does, from outside, without a restart.\n");
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
		if (verbs[i].group)
			printf("\n %s:\n", verbs[i].group);
		printf("  %-11s %s\n", verbs[i].verb->name, verbs[i].verb->summary);
	}
	printf("\n"
	       "Begin with `gospect why NAME` or `gospect record NAME -d 10s`.\n"
	       "`gospect VERB --help` explains a verb. `gospect --version` prints the version.\n");
}

static const struct verb *find_verb(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		if (!strcmp(verbs[i].verb->name, name))
			return verbs[i].verb;
	return NULL;
}

/* Output that could not be written is a failure. */
static int check_output(int status)
{
	if (!ferror(stdout) && !fflush(stdout))
		return status;
	if (status == EXIT_DONE)
		say("cannot write to standard output");
	return status == EXIT_DONE ? EXIT_FAILED : status;
}

static int finish(struct error *err, int status)
{
	if (err) {
		status = err->code == ERROR_USAGE ? EXIT_USAGE : EXIT_FAILED;
		if (err->code != ERROR_STOPPED)
			say("%s", err->message);
		error_destroy(err);
	} else if (mapped_file_unreported()) {
		say("a program file was truncated while gospect read it, so function names may be "
		    "missing; if a build is running, try again after it");
		status = EXIT_FAILED;
	}
	return check_output(status);
}

/*
 * Maps each large allocation separately, so that it goes back to the system when it is freed,
 * however long gospect runs. By default malloc() takes ever larger blocks from the heap. Small
 * objects lie between these, and the objects of each second (a generation of a trace) leave gaps.
 */
static void keep_heap_small(void)
{
	mallopt(M_MMAP_THRESHOLD, 128 << 10);
}

int main(int argc, char **argv)
{
	const struct verb *verb;
	int status = EXIT_DONE;
	struct error *err;

	keep_heap_small();
	command_remember();
	stop_on_faults();
	gospect_process_permit(GOSPECT_PERMIT_LIMITS | GOSPECT_PERMIT_PRIORITY |
			       GOSPECT_PERMIT_MAPPING);
	if (argc < 2) {
		say("no verb given; `gospect --help` lists the verbs");
		return EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
		print_help();
		return check_output(EXIT_DONE);
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		printf("gospect %s\n", GOSPECT_VERSION);
		return check_output(EXIT_DONE);
	}
	verb = find_verb(argv[1]);
	if (!verb) {
		say("unknown verb '%s'; `gospect --help` lists the verbs", argv[1]);
		return EXIT_USAGE;
	}
	err = verb->run(argc - 1, argv + 1, &status);
	gospect_confine_end();
	return finish(err, status);
}
