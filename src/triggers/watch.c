#include "triggers/watch.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/map.h"
#include "base/strbuf.h"
#include "gotrace/event.h"
#include "gotrace/label_text.h"
#include "image/handlers.h"
#include "triggers/back_off.h"

#define MOST_CONDITIONS 16
#define MOST_FRAMES 16

#define PANIC "^runtime\\.gopanic$"

/* A function whose calls are recorded. */
struct function {
	char *name;
	bool is_handler;
	uint32_t conditions; /* bits of those that name it, or name none */
};

struct life {
	enum trace_status state;
	uint64_t since;
	uint32_t stack;  /* where it waits, when `waits_in_sync` */
	uint32_t calls;  /* open ones */
	uint32_t inside; /* how many were open before the request; if there is one */
	bool waits_in_sync;
	bool told_wait;
	bool told_request;
	const struct function *request; /* NULL: none is open */
	uint32_t routes;                /* bits of conditions that its route or path matches */
	uint64_t request_ns;
};

struct watch {
	struct condition conditions[MOST_CONDITIONS];
	struct {
		struct back_off back_off;
		bool is_above; /* of a level */
	} states[MOST_CONDITIONS];
	size_t count;
	uint64_t flight_ns;
	char *functions; /* see watch_functions() */
	regex_t handlers;
	struct watch_source source;
	struct trace_sink next;
	struct map lives;  /* goid -> struct life * */
	struct map called; /* text -> struct function * */
	struct function **all;
	size_t all_count, all_capacity;
	uint64_t stopped_ns; /* when the world did; 0: it runs */
	uint32_t stop_reason;
	uint64_t now; /* ns of the last step */
	struct incident incident;
	bool has_incident;
	uint64_t rested;
};

/* ---- incidents ---- */

/* Whether this condition may fire now; counts it if not. */
static bool may_fire(struct watch *w, size_t i)
{
	bool may = back_off_allows(&w->states[i].back_off, w->now, w->flight_ns);

	w->rested += !may;
	return may;
}

static void __attribute__((format(printf, 3, 4)))
fire(struct watch *w, size_t i, const char *format, ...)
{
	va_list args;

	if (!may_fire(w, i) || w->has_incident)
		return;
	w->has_incident = true;
	w->incident.word = condition_word(&w->conditions[i]);
	va_start(args, format);
	vsnprintf(w->incident.sentence, sizeof(w->incident.sentence), format, args);
	va_end(args);
}

bool watch_take(struct watch *w, struct incident *ret)
{
	if (!w->has_incident)
		return false;
	*ret = w->incident;
	w->has_incident = false;
	return true;
}

uint64_t watch_rested(const struct watch *w)
{
	return w->rested;
}

/* ---- stacks ---- */

struct place {
	bool is_lock;      /* it waits for a Mutex or RWMutex */
	const char *where; /* the innermost function that is not of the runtime or sync */
};

static bool is_below(const char *name)
{
	return !strncmp(name, "runtime.", 8) || !strncmp(name, "sync.", 5) ||
	       !strncmp(name, "internal/", 9);
}

/* The functions of package sync that wait for a semaphore are named after what they wait for. */
static void look_at(const struct watch *w, uint64_t word, struct place *ret)
{
	struct go_frame frames[MOST_FRAMES];
	size_t count = pclntab_frames(w->source.functions, word, frames, MOST_FRAMES);

	for (size_t i = 0; i < count; i++) {
		const char *name = frames[i].function;

		ret->is_lock |=
			strstr(name, "SemacquireMutex") || strstr(name, "SemacquireRWMutex");
		if (!*ret->where && !is_below(name))
			ret->where = name;
	}
}

static struct place place_of(const struct watch *w, uint32_t stack)
{
	struct stack s = stacks_get(w->source.stacks, stack);
	struct place place = {.where = ""};

	for (uint32_t i = 0; i < s.count && !*place.where; i++)
		look_at(w, s.pcs[i], &place);
	if (!*place.where)
		place.where = "the runtime";
	return place;
}

/* ---- what lasts ---- */

struct time_text {
	char text[32];
};

static struct time_text time_text(uint64_t ns)
{
	struct time_text t;

	if (ns < 1000000000)
		snprintf(t.text, sizeof(t.text), "%.3g ms", ns / 1e6);
	else
		snprintf(t.text, sizeof(t.text), "%.3g s", ns / 1e9);
	return t;
}

static void check_request(struct watch *w, const struct life *l, uint64_t id, bool is_over)
{
	uint64_t ns = w->now - l->request_ns;

	for (size_t i = 0; i < w->count; i++)
		if (w->conditions[i].kind == CONDITION_REQUEST && ns > w->conditions[i].limit &&
		    l->request->conditions & 1u << i &&
		    (!w->conditions[i].has_route || l->routes & 1u << i))
			fire(w, i, "%s of goroutine %lu %s %s%s", l->request->name, id,
			     is_over ? "took" : "has taken", time_text(ns).text,
			     is_over ? "" : " so far");
}

static void check_lock(struct watch *w, const struct life *l, uint64_t id, bool is_over)
{
	uint64_t ns = w->now - l->since;
	struct place place = {0};

	for (size_t i = 0; i < w->count; i++) {
		if (w->conditions[i].kind != CONDITION_LOCK || ns <= w->conditions[i].limit)
			continue;
		if (!place.where)
			place = place_of(w, l->stack);
		if (place.is_lock)
			fire(w, i, "goroutine %lu %s for a lock for %s%s in %s", id,
			     is_over ? "waited" : "has waited", time_text(ns).text,
			     is_over ? "" : " so far", place.where);
	}
}

static void check_runnable(struct watch *w, const struct life *l, uint64_t id, bool is_over)
{
	uint64_t ns = w->now - l->since;

	for (size_t i = 0; i < w->count; i++)
		if (w->conditions[i].kind == CONDITION_RUNNABLE && ns > w->conditions[i].limit)
			fire(w, i, "goroutine %lu %s runnable for %s%s", id,
			     is_over ? "was" : "has been", time_text(ns).text,
			     is_over ? "" : " so far");
}

/* The goroutine leaves the state in which it was. */
static void check_state(struct watch *w, const struct life *l, uint64_t id, bool is_over)
{
	if (l->told_wait)
		return;
	if (l->state == TRACE_RUNNABLE)
		check_runnable(w, l, id, is_over);
	else if (l->state == TRACE_WAITING && l->waits_in_sync)
		check_lock(w, l, id, is_over);
}

static void check_stop(struct watch *w)
{
	uint64_t ns = w->now - w->stopped_ns;

	for (size_t i = 0; i < w->count; i++)
		if (w->conditions[i].kind == CONDITION_STOP && ns > w->conditions[i].limit)
			fire(w, i, "the world was stopped for %s: %s", time_text(ns).text,
			     texts_get(w->source.texts, w->stop_reason));
}

/* What has lasted for half of a flight counts, so that its beginning is still there. */
static void check_open(struct watch *w)
{
	uint64_t half = w->flight_ns / 2;

	for (size_t i = 0; i < w->lives.capacity; i++) {
		const struct map_slot *slot = &w->lives.slots[i];
		struct life *l = slot->key == MAP_NO_KEY ? NULL : (struct life *)slot->value;

		if (!l)
			continue;
		if (w->now > l->since + half && !l->told_wait) {
			check_state(w, l, slot->key, false);
			l->told_wait = true;
		}
		if (l->request && w->now > l->request_ns + half && !l->told_request) {
			check_request(w, l, slot->key, false);
			l->told_request = true;
		}
	}
}

/* ---- levels ---- */

static void check_level(struct watch *w, enum condition_kind kind, uint64_t level)
{
	for (size_t i = 0; i < w->count; i++) {
		if (w->conditions[i].kind != kind ||
		    !level_rises(&w->states[i].is_above, level, w->conditions[i].limit))
			continue;
		if (kind == CONDITION_HEAP)
			fire(w, i, "the heap has %.3g MB", level / (double)(1 << 20));
		else
			fire(w, i, "there are %lu goroutines", level);
	}
}

bool watch_wants_rss(const struct watch *w)
{
	for (size_t i = 0; i < w->count; i++)
		if (w->conditions[i].kind == CONDITION_RSS)
			return true;
	return false;
}

void watch_see_rss(struct watch *w, uint64_t rss, uint64_t limit)
{
	for (size_t i = 0; i < w->count; i++) {
		struct condition *c = &w->conditions[i];
		char text[CONDITION_TEXT];

		if (c->kind != CONDITION_RSS ||
		    !level_rises(&w->states[i].is_above, condition_rss_level(c, rss, limit),
				 c->limit))
			continue;
		condition_rss_text(rss, limit, text);
		fire(w, i, "%s", text);
	}
}

/* ---- goroutines ---- */

/* NULL: no memory. */
static struct life *life_of(struct watch *w, uint64_t id, enum trace_status state)
{
	uint64_t *at = map_at(&w->lives, id);

	if (!at)
		return NULL;
	if (!*at) {
		struct life *l = calloc(1, sizeof(*l));

		if (!l) {
			map_remove(&w->lives, id);
			return NULL;
		}
		*l = (struct life){.state = state, .since = w->now};
		*at = (uint64_t)l;
		check_level(w, CONDITION_GOROUTINES, w->lives.count);
	}
	return (struct life *)*at;
}

static bool change(struct watch *w, uint64_t id, enum trace_status state)
{
	struct life *l = life_of(w, id, state);

	if (!l)
		return false;
	check_state(w, l, id, true);
	l->state = state;
	l->since = w->now;
	l->waits_in_sync = l->told_wait = false;
	return true;
}

static bool block(struct watch *w, const struct trace_step *step)
{
	struct life *l;

	if (!change(w, step->g, TRACE_WAITING))
		return false;
	l = life_of(w, step->g, TRACE_WAITING);
	l->waits_in_sync = !strcmp(texts_get(w->source.texts, step->arg[0]), "sync");
	l->stack = step->arg[1];
	return true;
}

static void end_life(struct watch *w, uint64_t id)
{
	const uint64_t *at = map_find(&w->lives, id);
	struct life *l = at ? (struct life *)*at : NULL;

	if (!l)
		return;
	if (l->request && !l->told_request)
		check_request(w, l, id, true);
	free(l);
	map_remove(&w->lives, id);
	check_level(w, CONDITION_GOROUTINES, w->lives.count);
}

/* ---- calls ---- */

static bool is_match(const regex_t *regex, const char *name)
{
	return !regexec(regex, name, 0, NULL, 0);
}

static uint32_t conditions_of(const struct watch *w, const struct function *f)
{
	uint32_t bits = 0;

	for (size_t i = 0; i < w->count; i++) {
		const struct condition *c = &w->conditions[i];
		bool named = !c->has_name || is_match(&c->name, f->name);

		if (c->kind == CONDITION_REQUEST ? f->is_handler && named
		    : c->kind == CONDITION_CALL  ? named
		    : c->kind == CONDITION_PANIC ? !strcmp(f->name, "runtime.gopanic")
						 : false)
			bits |= 1u << i;
	}
	return bits;
}

/* NULL: no memory. */
static struct function *new_function(struct watch *w, const char *name)
{
	struct function *f;

	if (!array_reserve(&w->all, &w->all_capacity, w->all_count + 1))
		return NULL;
	f = calloc(1, sizeof(*f));
	if (!f)
		return NULL;
	f->name = strdup(name);
	if (!f->name) {
		free(f);
		return NULL;
	}
	f->is_handler = is_match(&w->handlers, name);
	f->conditions = conditions_of(w, f);
	w->all[w->all_count++] = f;
	return f;
}

static struct function *known_function(const struct watch *w, const char *name)
{
	for (size_t i = 0; i < w->all_count; i++)
		if (!strcmp(w->all[i]->name, name))
			return w->all[i];
	return NULL;
}

/* A text's number may be another text's after a while, so the name is compared. */
static struct function *function_of(struct watch *w, uint32_t text)
{
	const char *name = texts_get(w->source.texts, text) + strlen(TRACE_CALL_PREFIX);
	uint64_t *at = map_at(&w->called, text);
	struct function *f;

	if (!at)
		return NULL;
	f = (struct function *)*at;
	if (f && !strcmp(f->name, name))
		return f;
	f = known_function(w, name) ?: new_function(w, name);
	if (f)
		*at = (uint64_t)f;
	else if (!*at)
		map_remove(&w->called, text);
	return f;
}

static bool is_call(const struct watch *w, uint32_t text)
{
	return !strncmp(texts_get(w->source.texts, text), TRACE_CALL_PREFIX,
			strlen(TRACE_CALL_PREFIX));
}

static void check_call(struct watch *w, const struct function *f, uint64_t id)
{
	for (size_t i = 0; i < w->count; i++) {
		if (!(f->conditions & 1u << i))
			continue;
		if (w->conditions[i].kind == CONDITION_CALL)
			fire(w, i, "goroutine %lu called %s", id, f->name);
		else if (w->conditions[i].kind == CONDITION_PANIC)
			fire(w, i, "goroutine %lu panicked", id);
	}
}

static bool begin_call(struct watch *w, const struct trace_step *step)
{
	struct life *l = life_of(w, step->g, TRACE_RUNNING);
	const struct function *f = function_of(w, step->arg[1]);

	if (!l || !f)
		return false;
	check_call(w, f, step->g);
	if (!l->request && f->is_handler) {
		l->request = f;
		l->request_ns = w->now;
		l->inside = l->calls;
		l->told_request = false;
	}
	l->calls++;
	return true;
}

static bool end_call(struct watch *w, const struct trace_step *step)
{
	struct life *l = life_of(w, step->g, TRACE_RUNNING);

	if (!l)
		return false;
	l->calls -= l->calls > 0;
	if (!l->request || l->calls > l->inside)
		return true;
	if (!l->told_request)
		check_request(w, l, step->g, true);
	l->request = NULL;
	l->routes = 0;
	return true;
}

/* A log of what is known of a goroutine's request. */
static bool see_request(struct watch *w, const struct trace_step *step)
{
	const char *line = texts_get(w->source.texts, step->arg[2]);
	static const char *const keys[] = {"route", "path"};
	struct life *l = life_of(w, step->g, TRACE_RUNNING);

	for (size_t k = 0; l && k < ARRAY_SIZE(keys); k++) {
		_cleanup_strbuf_ struct strbuf value = STRBUF_INIT;

		if (!label_text_find(line, keys[k], &value))
			continue;
		for (size_t i = 0; i < w->count; i++)
			if (w->conditions[i].has_route &&
			    is_match(&w->conditions[i].route, value.data))
				l->routes |= 1u << i;
	}
	return l;
}

static bool has_route(const struct watch *w)
{
	for (size_t i = 0; i < w->count; i++)
		if (w->conditions[i].has_route)
			return true;
	return false;
}

/* ---- steps ---- */

static bool see_goroutine(struct watch *w, const struct trace_step *step)
{
	switch (step->op) {
	case OP_GO_CREATE:
		return change(w, step->arg[0], TRACE_RUNNABLE);
	case OP_GO_CREATE_SYSCALL:
		return change(w, step->arg[0], TRACE_IN_SYSCALL);
	case OP_GO_STATUS:
		return life_of(w, step->arg[0], step->arg[2]);
	case OP_GO_START:
		return change(w, step->arg[0], TRACE_RUNNING);
	case OP_GO_STOP:
	case OP_GO_SYSCALL_END_BLOCKED:
		return !step->g || change(w, step->g, TRACE_RUNNABLE);
	case OP_GO_BLOCK:
		return !step->g || block(w, step);
	case OP_GO_UNBLOCK:
		return change(w, step->arg[0], TRACE_RUNNABLE);
	case OP_GO_SYSCALL_BEGIN:
		return !step->g || change(w, step->g, TRACE_IN_SYSCALL);
	case OP_GO_SYSCALL_END:
		return !step->g || change(w, step->g, TRACE_RUNNING);
	case OP_GO_DESTROY:
	case OP_GO_DESTROY_SYSCALL:
		end_life(w, step->g);
		return true;
	default:
		return true;
	}
}

static bool see(struct watch *w, const struct trace_step *step)
{
	switch (step->op) {
	case OP_REGION_BEGIN:
		return !step->g || !is_call(w, step->arg[1]) || begin_call(w, step);
	case OP_REGION_END:
		return !step->g || !is_call(w, step->arg[1]) || end_call(w, step);
	case OP_STW_BEGIN:
		w->stopped_ns = w->now;
		w->stop_reason = step->arg[0];
		return true;
	case OP_STW_END:
		if (w->stopped_ns)
			check_stop(w);
		w->stopped_ns = 0;
		return true;
	case OP_LOG:
		return !step->g || !has_route(w) ||
		       strcmp(texts_get(w->source.texts, step->arg[1]), REQUEST_CATEGORY) != 0 ||
		       see_request(w, step);
	case OP_HEAP_ALLOC:
		check_level(w, CONDITION_HEAP, step->arg[0]);
		return true;
	default:
		return see_goroutine(w, step);
	}
}

static struct error *take_step(void *arg, const struct trace_step *step)
{
	struct watch *w = arg;

	w->now = step->ns;
	if (step->g < TRACE_HELPER_GOID && !see(w, step))
		return &error_no_memory;
	return w->next.step(w->next.arg, step);
}

static struct error *begin_generation(void *arg)
{
	struct watch *w = arg;

	check_open(w);
	return w->next.generation(w->next.arg);
}

struct trace_sink watch_sink(struct watch *w, const struct watch_source *source,
			     const struct trace_sink *next)
{
	w->source = *source;
	w->next = *next;
	return (struct trace_sink){.step = take_step,
				   .generation = begin_generation,
				   .arg = w,
				   .separate = next->separate,
				   .logs_run = next->logs_run};
}

/* ---- beginning and end ---- */

static void add_function(struct strbuf *s, const struct condition *c)
{
	const char *name = c->kind == CONDITION_PANIC ? PANIC : c->pattern;

	if (c->kind == CONDITION_PANIC || c->kind == CONDITION_CALL)
		strbuf_addf(s, "%s(%s)", s->length ? "|" : "", name);
}

static struct error *must_check parse_all(struct watch *w, const char *const *texts)
{
	_cleanup_strbuf_ struct strbuf functions = STRBUF_INIT;

	for (; *texts; texts++) {
		struct error *err;

		if (w->count == MOST_CONDITIONS)
			return error_format(ERROR_USAGE, "too many conditions: the limit is %d",
					    MOST_CONDITIONS);
		err = condition_parse(*texts, &w->conditions[w->count]);
		if (!err && !condition_is_of_trace(&w->conditions[w->count]))
			err = error_format(
				ERROR_USAGE,
				"condition '%s' does not apply to traces; use gospect watch",
				condition_word(&w->conditions[w->count]));
		if (err)
			return err;
		add_function(&functions, &w->conditions[w->count++]);
	}
	if (functions.failed)
		return &error_no_memory;
	if (!functions.length)
		return NULL;
	w->functions = strdup(functions.data);
	return w->functions ? NULL : &error_no_memory;
}

struct error *watch_create(const struct watch_options *options, struct watch **ret)
{
	struct watch *w = calloc(1, sizeof(*w));
	struct error *err;

	if (!w)
		return &error_no_memory;
	w->flight_ns = options->flight_ns;
	if (regcomp(&w->handlers, HANDLERS_REGEX, REG_EXTENDED | REG_NOSUB)) {
		free(w);
		return &error_no_memory;
	}
	err = parse_all(w, options->conditions);
	if (err) {
		watch_destroy(w);
		return err;
	}
	*ret = w;
	return NULL;
}

const char *watch_functions(const struct watch *w)
{
	return w->functions;
}

void watch_destroy(struct watch *w)
{
	if (!w)
		return;
	for (size_t i = 0; i < w->count; i++)
		condition_release(&w->conditions[i]);
	for (size_t i = 0; i < w->lives.capacity; i++)
		if (w->lives.slots[i].key != MAP_NO_KEY)
			free((struct life *)w->lives.slots[i].value);
	for (size_t i = 0; i < w->all_count; i++) {
		free(w->all[i]->name);
		free(w->all[i]);
	}
	free(w->all);
	map_release(&w->lives);
	map_release(&w->called);
	regfree(&w->handlers);
	free(w->functions);
	free(w);
}
