#include <gospect/doctor.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/printable.h"
#include "cli/cli.h"
#include "cli/find.h"

static const struct argp_option options[] =
	{{NULL, 0, NULL, 0, "Target:", 1},
	 {"pid", 'p', "PID|NAME", 0,
	  "Check what works on this process, and remove the agent of a killed trace from it", 1},
	 {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	const char **word = state->input;

	switch (key) {
	case 'p':
	case ARGP_KEY_ARG:
		return parse_target(arg, word, state);
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp argp =
	{options,
	 parse,
	 "[PID|NAME]",
	 "Checks what works on this machine for this user, what each verb needs, and how to get "
	 "what "
	 "is missing; with PID or NAME for one process.\v"
	 "Each line is one check, `ok` or `no`. The exit status is 0 if every verb works, else 1.\n"
	 "\n"
	 "Examples:\n"
	 "  gospect doctor\n"
	 "  gospect doctor -p server",
	 NULL,
	 NULL,
	 NULL};

struct lines {
	bool verbs_have_head; /* "verbs:", above the first of them */
	bool verb_fails;
};

static void print_finding(void *arg, const struct gospect_finding *f)
{
	struct lines *l = arg;

	if (f->kind == GOSPECT_FINDING_VERB && !l->verbs_have_head) {
		puts("verbs:");
		l->verbs_have_head = true;
	}
	printable_line(stdout, "%-3s %-20s %s", f->is_good ? "ok" : "no", f->name, f->text);
	l->verb_fails |= f->kind == GOSPECT_FINDING_VERB && !f->is_good;
}

static struct error *run(int argc, char **argv, int *ret)
{
	struct lines l = {0};
	const char *word = NULL;
	pid_t pid = 0;
	bool help;
	struct error *err = parse_options(&argp, "doctor", argc, argv, &word, &help);

	if (!err && word)
		err = find_target(word, "doctor", &pid);
	if (err || help)
		return err;
	puts("this machine and user:");
	gospect_doctor_machine(print_finding, &l);
	if (pid) {
		printf("process %d:\n", pid);
		l.verb_fails = false;
		gospect_doctor_process(pid, print_finding, &l);
	}
	*ret = l.verb_fails ? EXIT_FAILED : EXIT_DONE;
	return NULL;
}

const struct verb verb_doctor = {"doctor", "what works here, and what to do for the rest", run};
