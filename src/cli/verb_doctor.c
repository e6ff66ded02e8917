#include <gospect/doctor.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "cli/find.h"
#include "cli/report_rows.h"
#include "cli/terminal.h"

enum { KEY_CONTAINER = 0x2000 };

struct doctor_verb {
	const char *word;      /* of the process; NULL: none */
	const char *container; /* that it is in; NULL: any */
	bool json;
};

static const struct argp_option options[] =
	{{NULL, 0, NULL, 0, "Target:", 1},
	 {"pid", 'p', "PID|NAME", 0,
	  "Check what works on this process, and remove the agent of a killed trace from it", 1},
	 {"container", KEY_CONTAINER, "ID", 0,
	  "Check the Go process in this container of Docker, containerd, CRI-O, Podman or systemd; "
	  "the first 4 characters suffice",
	  1},
	 {"format", 'f', "FORMAT", 0, "Print text (the default) or json", 2},
	 {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct doctor_verb *v = state->input;

	switch (key) {
	case 'f':
		if (strcmp(arg, "text") && strcmp(arg, "json"))
			return wrong_option(state, "unknown format '%s'; use text or json", arg);
		v->json = !strcmp(arg, "json");
		return 0;
	case KEY_CONTAINER:
		return parse_container(arg, &v->container, state);
	case 'p':
	case ARGP_KEY_ARG:
		return parse_target(arg, &v->word, state);
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp argp =
	{options,
	 parse,
	 "[PID|NAME]",
	 "Checks what works on this machine for this user, what each verb needs, and how to get "
	 "the rest. With PID or NAME it also checks one process.\v"
	 "Each line is one check, `ok` or `no`. The exit status is 0 if every verb works, else 1.\n"
	 "\n"
	 "Examples:\n"
	 "  gospect doctor\n"
	 "  gospect doctor -p server",
	 NULL,
	 NULL,
	 NULL};

/* Consecutive verbs with the same text share a line. */
struct verbs {
	struct strbuf names;
	size_t count;
	char *text; /* NULL: none */
	bool is_good;
};

struct lines {
	struct json_object *list; /* of JSON; NULL: text */
	const char *about;        /* "machine", "process" */
	bool verbs_have_head;     /* "verbs:", above the first of them */
	bool verb_fails;
	struct verbs verbs;
	char *last_bad; /* the text of the last fact that is not good */
};

static void print_line(bool good, const char *name, const char *text)
{
	char head[200];

	snprintf(head, sizeof(head), "%-3s %-20s ", good ? "ok" : "no", name);
	terminal_write_words(stdout, head, text, 25);
}

static void print_verbs(struct lines *l)
{
	struct verbs *v = &l->verbs;
	bool known = v->text && l->last_bad && !v->is_good && !strcmp(v->text, l->last_bad);

	if (!v->text)
		return;
	if (v->count > 1)
		strbuf_addc(&v->names, ':');
	print_line(v->is_good, v->names.data, known ? "for the reason above" : v->text);
	strbuf_reset(&v->names);
	v->count = 0;
	free(take_ptr(v->text));
}

static void take_verb(struct lines *l, const struct gospect_finding *f)
{
	struct verbs *v = &l->verbs;
	const char *part;

	if (!l->verbs_have_head)
		puts("verbs:");
	l->verbs_have_head = true;
	if (v->text && (v->is_good != f->is_good || strcmp(v->text, f->text)))
		print_verbs(l);
	/* In a list, "record, on-CPU" is one verb. */
	part = strstr(f->name, ", ");
	strbuf_addf(&v->names, "%s%.*s", v->count++ ? ", " : "",
		    (int)(part ? (size_t)(part - f->name) : strlen(f->name)), f->name);
	if (part)
		strbuf_addf(&v->names, " (%s)", part + 2);
	if (!v->text)
		v->text = strdup(f->text);
	v->is_good = f->is_good;
}

static void take_fact(struct lines *l, const struct gospect_finding *f)
{
	print_verbs(l);
	print_line(f->is_good, f->name, f->text);
	if (f->is_good)
		return;
	free(l->last_bad);
	l->last_bad = strdup(f->text);
}

static void add_finding(const struct lines *l, const struct gospect_finding *f)
{
	struct json_object *o = json_object_new_object();

	report_add_text(o, "about", l->about);
	report_add_text(o, "kind", f->kind == GOSPECT_FINDING_VERB ? "verb" : "fact");
	report_add_text(o, "name", f->name);
	json_object_object_add(o, "ok", json_object_new_boolean(f->is_good));
	report_add_text(o, "text", f->text);
	json_object_array_add(l->list, o);
}

static void take_finding(void *arg, const struct gospect_finding *f)
{
	struct lines *l = arg;

	l->verb_fails |= f->kind == GOSPECT_FINDING_VERB && !f->is_good;
	if (l->list)
		add_finding(l, f);
	else if (f->kind == GOSPECT_FINDING_VERB)
		take_verb(l, f);
	else
		take_fact(l, f);
}

static void begin_part(struct lines *l, const char *about)
{
	print_verbs(l);
	l->about = about;
	l->verb_fails = false;
}

static void look(struct lines *l, pid_t pid)
{
	begin_part(l, "machine");
	if (!l->list)
		puts("this machine and user:");
	gospect_doctor_machine(take_finding, l);
	if (pid) {
		begin_part(l, "process");
		if (!l->list)
			printf("process %d:\n", pid);
		gospect_doctor_process(pid, take_finding, l);
	}
	print_verbs(l);
	if (l->list)
		report_rows_write_list(&(const struct report_rows){.out = stdout, .list = l->list});
	free(l->last_bad);
	strbuf_release(&l->verbs.names);
}

static struct error *run(int argc, char **argv, int *ret)
{
	struct lines l = {.verbs.names = STRBUF_INIT};
	struct doctor_verb v = {0};
	pid_t pid = 0;
	bool help;
	struct error *err = parse_options(&argp, "doctor", argc, argv, &v, &help);

	if (!err && v.word && v.container)
		err = error_format(ERROR_USAGE,
				   "%s: --container and another target are mutually exclusive",
				   "doctor");
	if (!err && v.container)
		err = find_container(v.container, "doctor", &pid);
	if (!err && v.word)
		err = find_target(v.word, "doctor", &pid);
	if (err || help)
		return err;
	if (v.json)
		l.list = json_object_new_array();
	look(&l, pid);
	json_object_put(l.list);
	*ret = l.verb_fails ? EXIT_FAILED : EXIT_DONE;
	return NULL;
}

const struct verb verb_doctor = {"doctor", "check what works here, and how to get the rest", run};
