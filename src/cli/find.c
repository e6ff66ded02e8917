#include "cli/find.h"

#include <gospect/processes.h>
#include <stdint.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "cli/stop.h"

/* Processes that a message lists at most. */
enum { MAX_LISTED = 10, MAX_COMMAND = 60 };

error_t parse_target(const char *arg, const char **word, struct argp_state *state)
{
	unsigned long pid;

	if (*word)
		return wrong_option(state, "two targets, '%s' and '%s'; give one", *word, arg);
	if (!arg[strspn(arg, "+-.0123456789")] && (!parse_id(arg, &pid) || pid > INT32_MAX))
		return wrong_option(state,
				    "invalid process id '%s': it must be a number greater than 0",
				    arg);
	*word = arg;
	return 0;
}

/* Processes of one name; the details are those of the last. */
struct found {
	struct strbuf list; /* "4711 (./shop -load 40), 4712 (shop)" */
	size_t count;
	pid_t pid;
	bool names_all; /* the list begins each with its name */
};

static void list_command(struct strbuf *list, const struct gospect_go_process *p)
{
	const char *command = *p->command ? p->command : p->name;
	bool whole = strlen(command) <= MAX_COMMAND;

	strbuf_addf(list, "%d (%.*s%s)", p->pid, MAX_COMMAND, command, whole ? "" : "...");
}

static int note(void *arg, const struct gospect_go_process *p)
{
	struct found *f = arg;

	f->pid = p->pid;
	if (f->count++ >= MAX_LISTED)
		return 0;
	strbuf_addf(&f->list, "%s", f->count > 1 ? ", " : "");
	if (f->names_all)
		strbuf_addf(&f->list, "%s (%d)", p->name, p->pid);
	else
		list_command(&f->list, p);
	return 0;
}

static struct error *must_check find_all(const char *name, struct found *f)
{
	const struct gospect_processes_options how = {.size = sizeof(how),
						      .cancel = stop_cancel,
						      .name = name,
						      .flags = name ? GOSPECT_PROCESSES_DENIED : 0};
	struct error *err = library_error(gospect_processes_each(&how, note, f, NULL));

	if (f->count > MAX_LISTED)
		strbuf_addf(&f->list, " and %zu more", f->count - MAX_LISTED);
	return err;
}

static void cleanup_found(struct found *f)
{
	strbuf_release(&f->list);
}

/* The error for a name that no process has: it lists the Go processes. */
static struct error *must_check none_found(const char *name)
{
	_cleanup_(cleanup_found) struct found f = {.list = STRBUF_INIT, .names_all = true};
	const char *base = strrchr(name, '/');
	struct error *err = find_all(NULL, &f);

	if (err)
		return err;
	if (base)
		return error_format(
			ERROR_FAILED,
			"no Go process is named '%s': a name has no folder; use -p %s, or "
			"-- %s to start it",
			name, base + 1, name);
	if (!f.count)
		return error_format(ERROR_FAILED,
				    "no Go process is named '%s'; gospect sees no Go process here",
				    name);
	return error_format(ERROR_FAILED, "no Go process is named '%s'; there are: %s", name,
			    f.list.data);
}

struct error *find_target(const char *word, const char *verb, pid_t *ret)
{
	_cleanup_(cleanup_found) struct found f = {.list = STRBUF_INIT};
	unsigned long pid;
	struct error *err;

	if (parse_id(word, &pid)) {
		*ret = pid;
		return NULL;
	}
	err = find_all(word, &f);
	if (!err && !f.count)
		err = none_found(word);
	if (!err && f.count > 1)
		err = error_format(ERROR_USAGE,
				   "%s: %zu processes are named '%s': %s; give one process id",
				   verb, f.count, word, f.list.data);
	if (!err)
		*ret = f.pid;
	return err;
}
