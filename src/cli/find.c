#include "cli/find.h"

#include <gospect/processes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "cli/stop.h"

/* Processes that a message lists at most. */
enum { MAX_LISTED = 10, MAX_COMMAND = 60 };
/* The shortest prefix of a container's id. */
enum { LEAST_CONTAINER = 4 };

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

error_t parse_container(const char *arg, const char **id, struct argp_state *state)
{
	const char *scheme = strstr(arg, "://"), *word = scheme ? scheme + 3 : arg;

	if (*id)
		return wrong_option(state, "two containers, '%s' and '%s'; give one", *id, word);
	if (strlen(word) < LEAST_CONTAINER || strchr(word, '/'))
		return wrong_option(state,
				    "invalid container '%s': it must be an id or its first %d "
				    "characters or more",
				    arg, LEAST_CONTAINER);
	*id = word;
	return 0;
}

/* Processes of one name or container; the details are those of the last. */
struct found {
	struct strbuf list; /* "4711 (./shop -load 40), 4712 (shop)" */
	size_t count;
	pid_t pid;
	bool names_all; /* each item of the list begins with its name */
	bool contained; /* the list has containers, each with its first process, and no names */
};

static void list_command(struct strbuf *list, const struct gospect_go_process *p)
{
	const char *command = *p->command ? p->command : p->name;
	bool whole = strlen(command) <= MAX_COMMAND;

	strbuf_addf(list, "%d (%.*s%s)", p->pid, MAX_COMMAND, command, whole ? "" : "...");
}

static bool has_container(const struct found *f, const char *container)
{
	char begin[32];

	snprintf(begin, sizeof(begin), "%.12s (", container);
	return strstr(f->list.data, begin);
}

static int note(void *arg, const struct gospect_go_process *p)
{
	struct found *f = arg;

	if (f->contained && (!*p->container || has_container(f, p->container)))
		return 0;
	f->pid = p->pid;
	if (f->count++ >= MAX_LISTED)
		return 0;
	strbuf_addf(&f->list, "%s", f->count > 1 ? ", " : "");
	if (f->contained)
		strbuf_addf(&f->list, "%.12s (%s, %d)", p->container, p->name, p->pid);
	else if (f->names_all)
		strbuf_addf(&f->list, "%s (%d)", p->name, p->pid);
	else
		list_command(&f->list, p);
	return 0;
}

static struct error *must_check find_all(const char *name, const char *container, struct found *f)
{
	const bool denied = name || container;
	const struct gospect_processes_options how = {.size = sizeof(how),
						      .cancel = stop_cancel,
						      .name = name,
						      .container = container,
						      .flags = denied ? GOSPECT_PROCESSES_DENIED
								      : 0};
	struct error *err = library_error(gospect_processes_each(&how, note, f, NULL));

	if (f->count > MAX_LISTED)
		strbuf_addf(&f->list, " and %zu more", f->count - MAX_LISTED);
	return err;
}

/* What a word means, and if that is nothing, what else there is. */
struct search {
	struct found found, others;
};

static void cleanup_search(struct search *s)
{
	strbuf_release(&s->found.list);
	strbuf_release(&s->others.list);
}

/* By name, or by container. */
static struct error *must_check search_for(const char *name, const char *container,
					   struct search *ret)
{
	struct error *err;

	*ret = (struct search){{.list = STRBUF_INIT}, {.list = STRBUF_INIT}};
	ret->others.contained = container;
	ret->others.names_all = name;
	err = find_all(name, container, &ret->found);
	return err || ret->found.count ? err : find_all(NULL, NULL, &ret->others);
}

/* The error for a name that no process has: it lists the Go processes. */
static struct error *must_check none_found(const char *name, const struct found *others)
{
	const char *base = strrchr(name, '/');

	if (base)
		return error_format(
			ERROR_FAILED,
			"no Go process is named '%s': a process name has no '/'; use -p %s, or -- %s to start it",
			name, base + 1, name);
	if (!others->count)
		return error_format(ERROR_FAILED,
				    "no Go process is named '%s'; gospect sees no Go process here",
				    name);
	return error_format(ERROR_FAILED, "no Go process is named '%s'; there are: %s", name,
			    others->list.data);
}

struct error *find_target(const char *word, const char *verb, pid_t *ret)
{
	_cleanup_(cleanup_search) struct search s = {0};
	unsigned long pid;
	struct error *err;

	if (parse_id(word, &pid)) {
		*ret = pid;
		return NULL;
	}
	err = search_for(word, NULL, &s);
	if (!err && !s.found.count)
		err = none_found(word, &s.others);
	if (!err && s.found.count > 1)
		err = error_format(ERROR_USAGE,
				   "%s: %zu processes are named '%s': %s; give one process id",
				   verb, s.found.count, word, s.found.list.data);
	if (!err)
		*ret = s.found.pid;
	return err;
}

/* The error for a container without a Go process: it lists the containers with one. */
static struct error *must_check none_contained(const char *id, const struct found *others)
{
	if (!others->count)
		return error_format(
			ERROR_FAILED,
			"no Go process is in container '%s'; gospect sees no Go process "
			"in any container here",
			id);
	return error_format(ERROR_FAILED, "no Go process is in container '%s'; there are: %s", id,
			    others->list.data);
}

struct error *find_container(const char *id, const char *verb, pid_t *ret)
{
	_cleanup_(cleanup_search) struct search s = {0};
	struct error *err = search_for(NULL, id, &s);

	if (!err && !s.found.count)
		err = none_contained(id, &s.others);
	if (!err && s.found.count > 1)
		err = error_format(ERROR_USAGE,
				   "%s: %zu processes are in container '%s': %s; use -p PID", verb,
				   s.found.count, id, s.found.list.data);
	if (!err)
		*ret = s.found.pid;
	return err;
}
