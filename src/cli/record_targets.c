#include "cli/record_targets.h"

#include <gospect/processes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "cli/find.h"
#include "cli/process_file.h"
#include "cli/stop.h"

bool record_targets_grow(const struct target_options *o)
{
	return o->follow || o->children;
}

bool record_targets_are_many(const struct target_options *o)
{
	return o->host || o->more_count || record_targets_grow(o) || o->contains_many;
}

void record_targets_release(struct record_targets *t)
{
	free(t->items);
	*t = (struct record_targets){0};
}

/* ---- one process ---- */

static struct error *must_check add(struct record_targets *t, const struct record_target *new)
{
	for (size_t i = 0; i < t->count; i++)
		if (t->items[i].pid == new->pid && t->items[i].start == new->start)
			return NULL;
	if (t->count == TARGETS_MOST) {
		t->is_full = true;
		return NULL;
	}
	if (!array_reserve(&t->items, &t->capacity, t->count + 1))
		return &error_no_memory;
	t->items[t->count++] = *new;
	return NULL;
}

static struct record_target target_of(const struct gospect_go_process *p)
{
	struct record_target new = {.pid = p->pid, .start = p->start, .is_seen = true};

	snprintf(new.name, sizeof(new.name), "%s", p->name);
	return new;
}

static int note_go(void *arg, const struct gospect_go_process *p)
{
	const struct record_target new = target_of(p);

	return error_dropped(add(arg, &new));
}

static struct record_target *find(const struct record_targets *t,
				  const struct gospect_go_process *p)
{
	for (size_t i = 0; i < t->count; i++)
		if (t->items[i].pid == p->pid && t->items[i].start == p->start)
			return &t->items[i];
	return NULL;
}

/* By a scan: one that is known may be another program now. */
static int note_unread(void *arg, const struct gospect_go_process *p)
{
	struct record_targets *t = arg;
	struct record_target *known = find(t, p), new = target_of(p);

	if (!p->start)
		return 0;
	if (!known)
		return error_dropped(add(t, &new));
	known->is_seen = true;
	if (!strcmp(known->name, new.name))
		return 0;
	snprintf(known->name, sizeof(known->name), "%s", new.name);
	known->is_old = false;
	return 0;
}

/* ---- at the beginning ---- */

/* All of the host, or of a container. */
static struct error *must_check find_go(const char *container, struct record_targets *t)
{
	const struct gospect_processes_options how = {.size = sizeof(how),
						      .cancel = stop_cancel,
						      .container = container,
						      .remark = say_remark};
	struct error *err = library_error(gospect_processes_each(&how, note_go, t, NULL));

	if (!err && !t->count && !container)
		err = error_format(ERROR_FAILED, "gospect can read no Go process of this machine");
	return err;
}

struct error *record_targets_settle(struct target_options *o)
{
	struct record_targets found = {0};
	struct error *err = NULL;

	if (!o->container || o->pid || record_targets_are_many(o))
		return NULL;
	err = find_go(o->container, &found);
	if (found.count == 1)
		o->pid = found.items[0].pid;
	o->contains_many = found.count > 1;
	record_targets_release(&found);
	return err;
}

static struct error *must_check find_word(struct record_targets *t, const char *word,
					  const char *verb)
{
	struct record_target new = {0};
	_cleanup_free_ char *name = NULL;
	struct error *err = find_target(word, verb, &new.pid);

	if (!err)
		err = process_file_name(new.pid, &name);
	if (err)
		return err;
	snprintf(new.name, sizeof(new.name), "%s", name);
	return add(t, &new);
}

static struct error *must_check find_words(const struct target_options *o, struct record_targets *t)
{
	struct error *err = o->word ? find_word(t, o->word, o->verb) : NULL;

	for (size_t i = 0; !err && i < o->more_count; i++)
		err = find_word(t, o->more[i], o->verb);
	return err;
}

/* Processes that were given by id are named anew, with their starts. */
static struct error *must_check name_given(const struct target_options *o, pid_t command,
					   struct record_targets *t)
{
	int32_t ids[TARGETS_MOST];
	size_t count = 0;
	const struct gospect_processes_options how = {.size = sizeof(how),
						      .pids = ids,
						      .flags = GOSPECT_PROCESSES_UNREAD};
	struct gospect_processes_options given = how;
	struct error *err;

	for (size_t i = 0; i < t->count; i++)
		ids[count++] = t->items[i].pid;
	if (command)
		ids[count++] = command;
	given.pid_count = count;
	t->count = 0;
	err = count ? library_error(gospect_processes_each(&given, note_unread, t, NULL)) : NULL;
	if (!err && count && !t->count && !command)
		err = error_format(ERROR_FAILED, "process %d has ended", ids[0]);
	return err;
}

struct error *record_targets_find(const struct target_options *o, pid_t command,
				  struct record_targets *ret)
{
	struct error *err;

	*ret = (struct record_targets){0};
	if (o->host || o->container)
		err = find_go(o->container, ret);
	else
		err = find_words(o, ret);
	if (!err && record_targets_grow(o))
		err = name_given(o, command, ret);
	if (!err && record_targets_grow(o))
		err = record_targets_scan(o, ret);
	return err;
}

/* ---- later ---- */

static struct error *must_check scan_name(const char *name, struct record_targets *t)
{
	const struct gospect_processes_options how = {.size = sizeof(how),
						      .name = name,
						      .flags = GOSPECT_PROCESSES_UNREAD};

	return library_error(gospect_processes_each(&how, note_unread, t, NULL));
}

static size_t ids_of_seen(const struct record_targets *t, int32_t *ids)
{
	size_t count = 0;

	for (size_t i = 0; i < t->count; i++)
		if (t->items[i].is_seen)
			ids[count++] = t->items[i].pid;
	return count;
}

static struct error *must_check scan_children(const int32_t *ids, size_t count,
					      struct record_targets *t)
{
	const struct gospect_processes_options how = {.size = sizeof(how),
						      .ancestors = ids,
						      .ancestor_count = count,
						      .flags = GOSPECT_PROCESSES_UNREAD};

	return count ? library_error(gospect_processes_each(&how, note_unread, t, NULL)) : NULL;
}

static void forget_gone(struct record_targets *t)
{
	size_t n = 0;

	for (size_t i = 0; i < t->count; i++)
		if (t->items[i].is_seen || !t->items[i].is_old)
			t->items[n++] = t->items[i];
	t->count = n;
}

struct error *record_targets_scan(const struct target_options *o, struct record_targets *t)
{
	/* One whose parent has ended is another one's child now: all that were seen are ancestors.
	 */
	int32_t ids[2 * TARGETS_MOST];
	size_t count = ids_of_seen(t, ids);
	struct error *err = NULL;

	for (size_t i = 0; i < t->count; i++)
		t->items[i].is_seen = false;
	if (o->follow)
		err = scan_name(o->follow, t);
	count += ids_of_seen(t, ids + count);
	if (!err && o->children)
		err = scan_children(ids, count, t);
	forget_gone(t);
	return err;
}

bool record_targets_are_gone(const struct record_targets *t)
{
	for (size_t i = 0; i < t->count; i++)
		if (t->items[i].is_seen)
			return false;
	return true;
}
