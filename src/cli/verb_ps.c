#include <errno.h>
#include <gospect/processes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/strbuf.h"
#include "cli/cli.h"
#include "cli/process_file.h"
#include "cli/report_rows.h"
#include "cli/terminal.h"

/* The most reasons, and the most processes of each, in messages. */
enum { MAX_REASONS = 5, MAX_NAMED = 8 };

static const struct argp_option options[] = {{NULL, 0, NULL, 0, "Output:", 2},
					     {"format", 'f', "FORMAT", 0,
					      "Print text (a table, the default) or json", 2},
					     {0}};

struct ps_verb {
	bool json;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct ps_verb *v = state->input;

	if (key != 'f')
		return ARGP_ERR_UNKNOWN;
	if (strcmp(arg, "text") && strcmp(arg, "json"))
		return wrong_option(state, "unknown format '%s'; use text or json", arg);
	v->json = !strcmp(arg, "json");
	return 0;
}

static const struct argp argp = {options,
				 parse,
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

/* Why processes could not be read, and which. */
struct reason {
	char *text;
	struct strbuf processes;
	size_t count;
};

struct listing {
	struct report_rows rows; /* of JSON */
	size_t shown;
	struct reason reasons[MAX_REASONS];
	size_t reason_count;
	size_t others; /* processes with yet other reasons */
	int write_errno;
};

static void note_denied(struct listing *l, const struct gospect_go_process *p)
{
	const char *text = process_reason(p->problem);
	struct reason *r = l->reasons;

	while (r < l->reasons + l->reason_count && strcmp(r->text, text))
		r++;
	if (r == l->reasons + MAX_REASONS) {
		l->others++;
		return;
	}
	if (r == l->reasons + l->reason_count) {
		*r = (struct reason){.text = strdup(text), .processes = STRBUF_INIT};
		if (!r->text)
			return;
		l->reason_count++;
	}
	if (r->count++ < MAX_NAMED)
		strbuf_addf(&r->processes, "%s%d (%s)", r->count > 1 ? ", " : "", p->pid, p->name);
}

/* Names the processes that could not be read, the reason, and the remedy. */
static void say_denied(struct listing *l)
{
	for (size_t i = 0; i < l->reason_count; i++) {
		struct reason *r = &l->reasons[i];

		if (r->count > MAX_NAMED)
			strbuf_addf(&r->processes, " and %zu more", r->count - MAX_NAMED);
		say("cannot read %s: %s", r->processes.data, r->text);
	}
	if (l->others)
		say("cannot read %zu more process%s, for other reasons; -f json lists all",
		    l->others, l->others == 1 ? "" : "es");
}

static void release_reasons(struct listing *l)
{
	for (size_t i = 0; i < l->reason_count; i++) {
		free(l->reasons[i].text);
		strbuf_release(&l->reasons[i].processes);
	}
}

static void print_row(struct listing *l, const struct gospect_go_process *p)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	char goroutines[24] = "-", threads[24] = "-";

	if (!l->shown++) {
		strbuf_addf(&line, "%7s  %-12s %-22s %10s %7s  %s", "PID", "GO", "BUILD",
			    "GOROUTINES", "THREADS", "COMMAND");
		terminal_write_line(&line, stdout);
	}
	if (p->goroutines >= 0)
		snprintf(goroutines, sizeof(goroutines), "%ld", p->goroutines);
	if (p->threads)
		snprintf(threads, sizeof(threads), "%lu", p->threads);
	strbuf_addf(&line, "%7d  %-12s %-22s %10s %7s  %s", p->pid,
		    *p->go_version ? p->go_version : "-", p->build, goroutines, threads,
		    p->command);
	terminal_write_line(&line, stdout);
	if (*p->problem)
		terminal_write_words(stdout, "         ", p->problem, 9);
}

static void add_row(struct listing *l, const struct gospect_go_process *p)
{
	struct json_object *o = json_object_new_object();

	report_add_number(o, "pid", p->pid);
	report_add_text(o, "name", p->name);
	report_add_text(o, "go_version", p->go_version);
	report_add_text(o, "build", p->build);
	json_object_object_add(o, "goroutines",
			       p->goroutines >= 0 ? json_object_new_int64(p->goroutines) : NULL);
	json_object_object_add(o, "threads", p->threads ? json_object_new_int64(p->threads) : NULL);
	report_add_text(o, "command", p->command);
	report_add_text(o, "container", p->container);
	report_add_text(o, "problem", p->problem);
	json_object_array_add(l->rows.list, o);
}

static int take_row(void *arg, const struct gospect_go_process *p)
{
	struct listing *l = arg;

	if (p->is_denied && !l->rows.list) {
		note_denied(l, p);
		return 0;
	}
	if (l->rows.list)
		add_row(l, p);
	else
		print_row(l, p);
	l->write_errno = fflush(stdout) ? errno : 0;
	return l->write_errno;
}

static struct error *must_check list_all(const struct ps_verb *v, struct listing *l)
{
	const struct gospect_processes_options how = {.size = sizeof(how),
						      .remark = v->json ? NULL : say_remark,
						      .flags = GOSPECT_PROCESSES_DENIED};
	size_t denied = 0;
	struct error *err = library_error(gospect_processes_each(&how, take_row, l, &denied));

	if (err)
		return err;
	if (v->json)
		report_rows_write_list(&l->rows);
	if (l->write_errno || (v->json && fflush(stdout)))
		return error_errno(ERROR_FAILED, l->write_errno ? l->write_errno : errno,
				   "cannot write to standard output");
	say_denied(l);
	if (!denied && !l->shown && !v->json)
		say("no Go process found");
	return NULL;
}

static struct error *run(int argc, char **argv, int *ret)
{
	struct listing l = {.rows = {.out = stdout}};
	struct ps_verb v = {0};
	struct error *err;
	bool help;

	err = parse_options(&argp, "ps", argc, argv, &v, &help);
	if (err || help)
		return err;
	if (v.json)
		l.rows.list = json_object_new_array();
	err = list_all(&v, &l);
	release_reasons(&l);
	json_object_put(l.rows.list);
	return err;
}

const struct verb verb_ps = {"ps", "list the Go processes of this machine", run};
