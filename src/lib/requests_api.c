/* The requests of a trace: from its bytes to the objects that are handed out. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/utf8.h"
#include "image/handlers.h"
#include "lib/cancel_api.h"
#include "lib/error_api.h"
#include "lib/give_wakers.h"
#include "lib/options.h"
#include "lib/profile_handle.h"
#include "lib/remark.h"
#include "lib/request_allocations.h"
#include "lib/request_paths_api.h"
#include "lib/request_texts.h"
#include "lib/requests_handle.h"
#include "lib/trace_spans.h"
#include "lib/waker_words.h"
#include "profile/profile_symbols.h"

void gospect_requests_destroy(struct gospect_requests *r)
{
	if (!r)
		return;
	requests_release(&r->inner);
	inferred_spans_release(&r->inferred);
	history_release(&r->history);
	span_tables_release(&r->tables);
	if (r->has_root)
		regfree(&r->root);
	if (r->has_part)
		regfree(&r->part);
	if (r->has_client)
		regfree(&r->client);
	free(r);
}

static void cleanup_requests_handle(struct gospect_requests **r)
{
	gospect_requests_destroy(*r);
}
#define _cleanup_requests_handle_ _cleanup_(cleanup_requests_handle)

static struct error *must_check compile(struct gospect_requests *r, const char *root)
{
	const char *text = root ? root : HANDLERS_REGEX;

	if (regcomp(&r->root, text, REG_EXTENDED | REG_NOSUB))
		return error_format(ERROR_USAGE, "invalid regular expression '%s'", text);
	r->has_root = true;
	r->inferred.root = &r->root;
	r->inferred.requests = &r->inner;
	if (regcomp(&r->client, CLIENTS_REGEX, REG_EXTENDED | REG_NOSUB))
		return &error_no_memory;
	r->has_client = true;
	r->inferred.client = &r->client;
	return NULL;
}

static struct error *must_check compile_part(struct gospect_requests *r, const char *part)
{
	if (!part)
		return NULL;
	if (regcomp(&r->part, part, REG_EXTENDED | REG_NOSUB))
		return error_format(ERROR_USAGE, "invalid regular expression '%s'", part);
	r->has_part = true;
	r->inferred.part = &r->part;
	return NULL;
}

static struct error *must_check add_span(void *arg, const struct span *span)
{
	struct gospect_requests *r = arg;
	struct error *err = NULL;

	if (span->moment == SPAN_ALLOC) {
		allocation_sum_add(&r->allocated, span->alloc_size, span->alloc_rate);
		r->alloc_rate = span->alloc_rate;
	}
	if (r->has_paths && span->moment == SPAN_TIME)
		err = history_add(&r->history, span);
	if (err)
		return err;
	return r->has_root ? inferred_spans_add(&r->inferred, &r->tables, span)
			   : requests_add(&r->inner, &r->tables, span);
}

static struct error *must_check read_all(struct gospect_requests *r, const void *bytes, size_t size,
					 const struct gospect_requests_options *o)
{
	const struct trace_spans_options how = {
		.spans = {add_span, r, .calls = r->has_root, .samples = true,
			  .allocations = o->flags & GOSPECT_REQUESTS_ALLOC,
			  .cancel = cancel_flag(o->cancel)},
		.name = o->name,
		.remark = {o->remark, o->arg},
	};
	struct error *err;

	r->has_paths = o->flags & GOSPECT_REQUESTS_PATHS;
	r->has_allocations = o->flags & GOSPECT_REQUESTS_ALLOC;
	r->inner.key = o->label;
	r->inner.per = o->per;
	err = trace_spans_read(bytes, size, &how, &r->tables, &r->duration_ns);
	if (!err)
		err = inferred_spans_complete(&r->inferred);
	if (!err && o->flags & GOSPECT_REQUESTS_BY_TRACE)
		err = requests_join_traces(&r->inner, &r->tables);
	if (!err)
		err = requests_complete(&r->inner, r->duration_ns);
	return err;
}

static struct error *must_check check(const struct gospect_requests *r,
				      const struct gospect_requests_options *o)
{
	const struct remark to = {o->remark, o->arg};

	/* Otherwise the user may take a few rows of a busy server for all its requests. */
	if (r->inner.by_stacks)
		remark(&to,
		       "calls that did not block, make a system call or get preempted are missing from this trace; to see all, record it with gospect trace --root, or use labels");
	if (r->has_allocations && !r->allocated.samples)
		remark(&to,
		       "no allocation is in %s: the program allocated too little to be sampled, or the trace was recorded without --alloc",
		       o->name);
	if (r->inner.count)
		return NULL;
	if (o->flags & GOSPECT_REQUESTS_BY_TRACE)
		return error_format(
			ERROR_FAILED,
			"no request in %s came with a W3C traceparent; only traces by gospect have its ids",
			o->name);
	if (o->label)
		return error_format(
			ERROR_FAILED,
			"no goroutine in %s has the label %s; only traces by gospect have labels",
			o->name, o->label);
	return error_format(
		ERROR_FAILED,
		"no call in %s of an HTTP or gRPC handler, or of a function that --root matches",
		o->name);
}

/* ---- those that are wanted ---- */

struct wanted {
	const struct gospect_requests *requests;
	const regex_t *route; /* NULL: any */
	uint64_t slower_ns;
	uint64_t faster_ns; /* 0: any */
};

static bool is_wanted(const void *arg, const struct traced_request *item)
{
	const struct wanted *w = arg;
	_cleanup_strbuf_ struct strbuf route = STRBUF_INIT;

	if (item->elapsed_ns <= w->slower_ns && w->slower_ns)
		return false;
	if (w->faster_ns && (item->cut || item->elapsed_ns > w->faster_ns))
		return false;
	if (!w->route)
		return true;
	request_texts_route(&w->requests->tables, item, true, &route);
	return route.length && !regexec(w->route, route.data, 0, NULL, 0);
}

enum { MOST_ROUTES = 8 };

static void list_routes(const struct gospect_requests *r, bool or_path, struct strbuf *ret)
{
	_cleanup_strbuf_ struct strbuf route = STRBUF_INIT;
	struct intern seen = {0};
	uint32_t count = 0;

	for (size_t i = 0; i < r->inner.count && count <= MOST_ROUTES; i++) {
		uint32_t number;

		request_texts_route(&r->tables, &r->inner.items[i], or_path, &route);
		number = route.length ? intern_string(&seen, route.data) : 0;
		if (number <= count || number == INTERN_FAILED)
			continue;
		count = number;
		strbuf_adds(ret, ret->length ? ", " : "; there are: ");
		strbuf_adds(ret, count > MOST_ROUTES ? "..." : route.data);
	}
	intern_release(&seen);
}

/* The routes that there are, for a message; without any, the paths. */
static void add_routes(const struct gospect_requests *r, struct strbuf *ret)
{
	list_routes(r, false, ret);
	if (!ret->length)
		list_routes(r, true, ret);
}

static struct error *must_check none_wanted(const struct gospect_requests_options *o,
					    const struct strbuf *routes, uint64_t slowest_ns)
{
	if (o->faster_ns)
		return error_format(
			ERROR_FAILED,
			"no complete request in %s took %g ms or less, so there is nothing to compare with",
			o->name, o->faster_ns / 1e6);
	if (o->route && *routes->data && o->slower_ns)
		return error_format(
			ERROR_FAILED,
			"no request in %s that matches route '%s' took longer than %g ms%s",
			o->name, o->route, o->slower_ns / 1e6, routes->data);
	if (o->route && *routes->data)
		return error_format(ERROR_FAILED, "no request in %s matches route '%s'%s", o->name,
				    o->route, routes->data);
	if (o->route)
		return error_format(
			ERROR_FAILED,
			"no request in %s has a route or path that is known; only traces by gospect have them",
			o->name);
	return error_format(ERROR_FAILED,
			    "no request in %s took longer than %g ms; the slowest took %g ms",
			    o->name, o->slower_ns / 1e6, slowest_ns / 1e6);
}

static struct error *must_check keep_wanted(struct gospect_requests *r,
					    const struct gospect_requests_options *o)
{
	_cleanup_strbuf_ struct strbuf routes = STRBUF_INIT;
	struct wanted wanted = {.requests = r,
				.slower_ns = o->slower_ns,
				.faster_ns = o->faster_ns};
	uint64_t slowest_ns = r->inner.count ? r->inner.items[0].elapsed_ns : 0;
	regex_t route;

	if (!o->route && !o->slower_ns && !o->faster_ns)
		return NULL;
	if (o->route && regcomp(&route, o->route, REG_EXTENDED | REG_NOSUB))
		return error_format(ERROR_USAGE, "invalid regular expression '%s'", o->route);
	wanted.route = o->route ? &route : NULL;
	add_routes(r, &routes);
	requests_keep(&r->inner, is_wanted, &wanted);
	if (o->route)
		regfree(&route);
	return r->inner.count ? NULL : none_wanted(o, &routes, slowest_ns);
}

/* Groups them by route. */
static struct error *must_check take_routes(struct gospect_requests *r)
{
	_cleanup_strbuf_ struct strbuf route = STRBUF_INIT;

	for (size_t i = 0; i < r->inner.count; i++) {
		struct traced_request *item = &r->inner.items[i];

		request_texts_route(&r->tables, item, false, &route);
		item->per = utf8_intern(&r->inner.names, route.data, route.length);
		if (item->per == INTERN_FAILED)
			return &error_no_memory;
	}
	return NULL;
}

/* The caller's strings are no longer needed. */
static void forget_options(struct gospect_requests *r)
{
	r->inner.key = r->inner.per = NULL;
}

struct gospect_error *gospect_requests_read(const void *bytes, size_t size,
					    const struct gospect_requests_options *given,
					    struct gospect_requests **ret)
{
	_cleanup_requests_handle_ struct gospect_requests *r = calloc(1, sizeof(*r));
	struct gospect_requests_options o = {0};
	struct error *err = options_take(given, &o, sizeof(o), "gospect_requests_options");

	if (!r)
		return error_out(&error_no_memory);
	o.name = o.name ? o.name : "the trace";
	if (!err && o.label && o.root)
		err = error_format(ERROR_USAGE, ".label and .root are mutually exclusive");
	if (!err && o.flags & ~(uint32_t)(GOSPECT_REQUESTS_PATHS | GOSPECT_REQUESTS_PER_ROUTE |
					  GOSPECT_REQUESTS_BY_TRACE | GOSPECT_REQUESTS_ALLOC))
		err = error_format(ERROR_USAGE,
				   "invalid flags 0x%x; see enum gospect_requests_flags", o.flags);
	if (!err && !o.label)
		err = compile(r, o.root);
	if (!err)
		err = compile_part(r, o.part);
	if (!err)
		err = read_all(r, bytes, size, &o);
	if (!err)
		err = check(r, &o);
	if (!err)
		err = keep_wanted(r, &o);
	if (!err && o.flags & GOSPECT_REQUESTS_PER_ROUTE)
		err = take_routes(r);
	if (err)
		return error_out(err);
	forget_options(r);
	*ret = take_ptr(r);
	return NULL;
}

size_t gospect_requests_count(const struct gospect_requests *r)
{
	return r->inner.count;
}

/* ---- handing them out ---- */

static const char *name_of(const struct gospect_requests *r, uint32_t name)
{
	return intern_get(&r->inner.names, name);
}

static bool give_place(const struct gospect_requests *r, const struct request_place *from,
		       struct giving_wakers *giving, struct gospect_request_place *ret)
{
	bool waits = from->state == TRACE_WAITING;

	*ret = (struct gospect_request_place){
		.ns = from->ns,
		.count = from->count,
		.state = span_state(from->state),
		.wait_reason = waits ? intern_get(&r->tables.texts, from->reason) : "",
		.stack = span_stack_of(giving->arena, &r->tables, from->stack),
		.waited_ns = from->waited_ns,
		.error_ns = from->error_ns,
	};
	ret->wakers = give_wakers(giving, ret->wait_reason, from->wakers, from->waker_count,
				  &ret->waker_count);
	return ret->stack && ret->wakers;
}

static bool give_places(const struct gospect_requests *r, const struct traced_request *from,
			struct arena *arena, struct gospect_request *ret)
{
	size_t count = from->place_count;
	struct gospect_request_place *places = given_take(arena, (count + 1) * sizeof(*places));
	const struct gospect_request_place **pointers =
		given_take(arena, (count + 1) * sizeof(*pointers));
	struct giving_wakers giving = {arena, &r->tables, {0}};
	bool given = places && pointers;

	for (size_t i = 0; given && i < count; i++) {
		given = give_place(r, &from->places[i], &giving, &places[i]);
		pointers[i] = &places[i];
	}
	map_release(&giving.stacks);
	ret->place_count = count;
	ret->places = pointers;
	return given;
}

static struct gospect_path_segment give_segment(const struct gospect_requests *r,
						const struct path_segment *from,
						const struct gospect_stack *stack)
{
	bool waits = from->state == TRACE_WAITING;

	return (struct gospect_path_segment){
		.begin_ns = from->begin,
		.end_ns = from->end,
		.goroutine = from->g,
		.function = intern_get(&r->tables.texts, from->start),
		.wait_reason = waits ? intern_get(&r->tables.texts, from->reason) : "",
		.state = span_state(from->state),
		.is_unknown = !from->state,
		.depth = from->depth,
		.stack = stack,
	};
}

static bool give_path(const struct gospect_requests *r, const struct critical_path *path,
		      struct arena *arena, struct gospect_request *ret)
{
	struct gospect_path_segment *segments =
		given_take(arena, (path->count + 1) * sizeof(*segments));
	const struct gospect_path_segment **pointers =
		given_take(arena, (path->count + 1) * sizeof(*pointers));
	struct giving_wakers giving = {arena, &r->tables, {0}};
	bool given = segments && pointers;

	for (size_t i = 0; given && i < path->count; i++) {
		const struct gospect_stack *stack = give_stack(&giving, path->segments[i].stack);

		given = stack;
		segments[i] = give_segment(r, &path->segments[i], stack);
		pointers[i] = &segments[i];
	}
	map_release(&giving.stacks);
	ret->path_count = path->count;
	ret->path = pointers;
	return given;
}

static bool find_path(const struct gospect_requests *r, const struct traced_request *from,
		      struct arena *arena, struct gospect_request *ret)
{
	struct critical_path path = {0};
	bool found = !critical_path_find(&r->history, from->last, from->begin, from->end, &path) &&
		     give_path(r, &path, arena, ret);

	critical_path_release(&path);
	return found;
}

static bool give_parts(const struct gospect_requests *r, const struct traced_request *from,
		       struct arena *arena, struct gospect_request *ret)
{
	size_t count = from->part_count;
	struct gospect_request_part *parts = given_take(arena, (count + 1) * sizeof(*parts));

	for (size_t i = 0; parts && i < count; i++)
		parts[i] = (struct gospect_request_part){
			.function = intern_get(&r->tables.texts, from->parts[i].function),
			.ns = from->parts[i].ns,
			.count = from->parts[i].count,
		};
	ret->part_count = count;
	ret->parts = parts;
	return parts;
}

/* NULL: no memory. */
static const struct gospect_running_function *give_running(const struct gospect_requests *r,
							   const struct running_split *from,
							   struct arena *arena)
{
	struct gospect_running_function *running =
		given_take(arena, (from->count + 1) * sizeof(*running));

	for (size_t i = 0; running && i < from->count; i++)
		running[i] = (struct gospect_running_function){
			.function = intern_get(&r->tables.texts, from->items[i].function),
			.samples = from->items[i].samples,
			.ns = from->items[i].ns,
			.error_ns = from->items[i].error_ns,
		};
	return running;
}

static bool give_request(const struct gospect_requests *r, const struct traced_request *from,
			 struct arena *arena, struct gospect_request *ret)
{
	*ret = (struct gospect_request){
		.name = name_of(r, from->name),
		.per = name_of(r, from->per),
		.goroutine = from->g,
		.goroutines = from->goroutines,
		.begin_ns = from->begin,
		.end_ns = from->end,
		.elapsed_ns = from->elapsed_ns,
		.total_ns = from->total_ns,
		.running_ns = from->ns[TRACE_RUNNING],
		.runnable_ns = from->ns[TRACE_RUNNABLE],
		.syscall_ns = from->ns[TRACE_IN_SYSCALL],
		.waiting_ns = from->ns[TRACE_WAITING],
		.uncertain_ns = from->edge_ns,
		.is_cut = from->cut,
		.running_count = from->running.count,
		.running = give_running(r, &from->running, arena),
	};
	return ret->running && request_texts_give(&r->tables, from, arena, ret) &&
	       give_parts(r, from, arena, ret) && give_places(r, from, arena, ret) &&
	       give_allocations(r, from, arena, ret) &&
	       (!r->has_paths || find_path(r, from, arena, ret));
}

struct gospect_error *
gospect_requests_each(const struct gospect_requests *r,
		      int (*request)(void *arg, const struct gospect_request *request), void *arg)
{
	bool failed = false, ended = false;

	for (size_t i = 0; !failed && !ended && i < r->inner.count; i++) {
		struct arena arena = {0};
		struct gospect_request given;

		failed = !give_request(r, &r->inner.items[i], &arena, &given);
		if (!failed)
			ended = request(arg, &given);
		arena_release(&arena);
	}
	return error_out(failed ? &error_no_memory : NULL);
}

static struct gospect_request_group give_group(const struct gospect_requests *r,
					       const struct request_group *g, struct arena *arena)
{
	return (struct gospect_request_group){
		.name = name_of(r, g->name),
		.count = g->count,
		.cut = g->cut,
		.p50_ns = g->p50,
		.p90_ns = g->p90,
		.p99_ns = g->p99,
		.max_ns = g->max,
		.total_ns = g->total_ns,
		.running_ns = g->ns[TRACE_RUNNING],
		.runnable_ns = g->ns[TRACE_RUNNABLE],
		.syscall_ns = g->ns[TRACE_IN_SYSCALL],
		.waiting_ns = g->ns[TRACE_WAITING],
		.running_count = g->running.count,
		.running = give_running(r, &g->running, arena),
	};
}

struct gospect_error *
gospect_requests_groups(const struct gospect_requests *r,
			int (*group)(void *arg, const struct gospect_request_group *group),
			void *arg)
{
	struct request_group *groups = NULL;
	size_t count = 0;
	struct error *err = requests_group(&r->inner, &groups, &count);
	bool ended = false;

	for (size_t i = 0; !err && !ended && i < count; i++) {
		struct arena arena = {0};
		struct gospect_request_group given = give_group(r, &groups[i], &arena);
		const struct gospect_allocations allocated =
			allocations_estimate(&groups[i].allocated, r->alloc_rate);

		given.allocated = r->has_allocations ? &allocated : NULL;
		err = given.running ? NULL : &error_no_memory;
		ended = !err && group(arg, &given);
		arena_release(&arena);
	}
	requests_groups_release(groups, count);
	return error_out(err);
}

/* ---- as a profile ---- */

/* A stack word for the function of a request: this number plus that of the name. */
#define FUNCTION_WORD (1ull << 40)

/* "method", "request", "route", "status": those that are known. */
enum { MOST_LABELS = 4 };

enum request_values { OF_TIME, OF_WAKERS, OF_ALLOCATIONS };

/* The state while samples are made. */
struct request_samples {
	const struct gospect_requests *requests;
	struct profile *profile;
	uint64_t *pcs;
	size_t capacity;
	enum request_values values;
	struct allocation_rests rests;
	struct waker_words words;
	struct profile_label labels[MOST_LABELS]; /* of the present request */
	uint32_t label_count;
};

static size_t request_frames(const void *requests, uint64_t word, struct go_frame *ret, size_t max)
{
	const struct gospect_requests *r = requests;

	if (word < FUNCTION_WORD)
		return span_word_frames(&r->tables, word, ret, max);
	if (!max)
		return 0;
	ret[0] = (struct go_frame){.function = name_of(r, word - FUNCTION_WORD), .file = ""};
	return 1;
}

static struct error *must_check add_place(struct request_samples *s,
					  const struct request_place *place)
{
	const struct span_tables *tables = &s->requests->tables;
	struct intern *strings = &s->profile->strings;
	struct profile_sample sample = {
		.state = (enum profile_state)span_state(place->state),
		.count = place->count,
		.wall_ns = place->ns,
		.labels = s->labels,
		.label_count = s->label_count,
	};

	sample.cpu_ns = place->state == TRACE_RUNNING ? place->ns : 0;
	if (place->state == TRACE_WAITING)
		sample.wait = intern_string(strings, intern_get(&tables->texts, place->reason));
	if (sample.wait == INTERN_FAILED ||
	    !span_words(tables, place->stack, false, &s->pcs, &s->capacity, &sample))
		return &error_no_memory;
	return profile_add(s->profile, &sample);
}

/* Without a CPU sample a trace does not say where a request was while it ran: that time counts
 * under its own function. */
static struct error *must_check add_running(struct request_samples *s,
					    const struct traced_request *from)
{
	uint64_t pcs[] = {STACK_PC_RUNNING, FUNCTION_WORD + from->name};
	const struct profile_sample sample = {
		.state = PROFILE_RUNNING,
		.count = 1,
		.wall_ns = from->ns[TRACE_RUNNING],
		.cpu_ns = from->ns[TRACE_RUNNING],
		.pcs = pcs,
		.depth = s->requests->has_root ? 2 : 1,
		.labels = s->labels,
		.label_count = s->label_count,
	};

	return sample.wall_ns ? profile_add(s->profile, &sample) : NULL;
}

/* A wait, by who ended it. */
static struct error *must_check add_ended(struct request_samples *s,
					  const struct request_place *place,
					  const struct span_by *ended, const struct waker *times)
{
	const struct span_tables *tables = &s->requests->tables;
	const char *reason = intern_get(&tables->texts, place->reason);
	struct profile_sample sample = {
		.state = PROFILE_WAITING,
		.wait = intern_string(&s->profile->strings, reason),
		.count = times->count,
		.wall_ns = times->ns,
		.labels = s->labels,
		.label_count = s->label_count,
	};

	if (!times->count)
		return NULL;
	if (sample.wait == INTERN_FAILED ||
	    !waker_words(&s->words, tables, place->stack, reason, ended, &sample))
		return &error_no_memory;
	return profile_add(s->profile, &sample);
}

static struct error *must_check add_wakers(struct request_samples *s,
					   const struct request_place *place)
{
	struct waker rest = {.ns = place->ns, .count = place->count};
	struct error *err = NULL;

	if (place->state != TRACE_WAITING)
		return NULL;
	for (size_t i = 0; !err && i < place->waker_count; i++) {
		const struct waker *w = &place->wakers[i];
		const struct span_by ended = {true, w->stack, w->g};

		rest.ns -= w->ns;
		rest.count -= w->count;
		err = add_ended(s, place, &ended, w);
	}
	return err ? err : add_ended(s, place, &(struct span_by){0}, &rest);
}

static struct error *must_check add_label(struct request_samples *s, const char *key,
					  const char *value)
{
	struct intern *strings = &s->profile->strings;
	struct profile_label label;

	if (!*value)
		return NULL;
	label.key = intern_string(strings, key);
	label.value = utf8_intern(strings, value, strlen(value));
	if (label.key == INTERN_FAILED || label.value == INTERN_FAILED)
		return &error_no_memory;
	s->labels[s->label_count++] = label;
	return NULL;
}

/* Those of few values: not the path, and not the ids. */
static struct error *must_check add_labels(struct request_samples *s,
					   const struct traced_request *from)
{
	struct arena arena = {0};
	struct gospect_request facts;
	struct error *err = NULL;

	s->label_count = 0;
	if (!request_texts_give(&s->requests->tables, from, &arena, &facts))
		err = &error_no_memory;
	if (!err)
		err = add_label(s, "method", facts.method);
	if (!err)
		err = add_label(s, "request", name_of(s->requests, from->name));
	if (!err)
		err = add_label(s, "route", facts.route);
	if (!err)
		err = add_label(s, "status", facts.status_name);
	arena_release(&arena);
	return err;
}

static struct error *must_check add_allocated(struct request_samples *s,
					      const struct allocation_stack *from)
{
	struct profile_sample sample = {.labels = s->labels, .label_count = s->label_count};

	if (!span_words(&s->requests->tables, from->stack, false, &s->pcs, &s->capacity, &sample))
		return &error_no_memory;
	return allocations_profile_add(s->profile, &sample, &from->sum, &s->rests);
}

static struct error *must_check add_request(struct request_samples *s,
					    const struct traced_request *from)
{
	const struct allocations *allocations = &from->allocations;
	struct error *err = add_labels(s, from);

	if (!err && s->values == OF_TIME && !from->running.samples)
		err = add_running(s, from);
	for (size_t i = 0; !err && s->values == OF_TIME && i < from->place_count; i++)
		err = add_place(s, &from->places[i]);
	for (size_t i = 0; !err && s->values == OF_WAKERS && i < from->place_count; i++)
		err = add_wakers(s, &from->places[i]);
	for (size_t i = 0; !err && s->values == OF_ALLOCATIONS && i < allocations->count; i++)
		err = add_allocated(s, &allocations->stacks[i]);
	return err;
}

static struct error *must_check begin_profile(const struct gospect_requests *r,
					      enum request_values values, struct profile *p)
{
	if (!p)
		return &error_no_memory;
	if (values == OF_ALLOCATIONS && !r->has_allocations)
		return error_format(ERROR_USAGE,
				    "these requests were read without GOSPECT_REQUESTS_ALLOC");
	return values == OF_ALLOCATIONS ? allocations_profile_begin(p, r->alloc_rate) : NULL;
}

static struct error *must_check make_profile(const struct gospect_requests *r,
					     enum request_values values,
					     struct gospect_profile **ret)
{
	_cleanup_profile_file_ struct profile_file file = {.profile = profile_create()};
	struct request_samples samples = {.requests = r, .profile = file.profile, .values = values};
	bool of_wakers = values == OF_WAKERS;
	struct symbol_source source = {of_wakers ? waker_word_frames : request_frames,
				       of_wakers ? (const void *)&r->tables : r};
	struct error *err = begin_profile(r, values, file.profile);

	for (size_t i = 0; !err && i < r->inner.count; i++)
		err = add_request(&samples, &r->inner.items[i]);
	free(samples.pcs);
	free(samples.rests.items);
	waker_words_release(&samples.words);
	if (!err) {
		file.profile->duration_ns = r->duration_ns;
		err = profile_add_comment(file.profile, "gospect %s, %zu requests of a trace",
					  GOSPECT_VERSION, r->inner.count);
	}
	if (!err)
		err = symbols_create(file.profile, &source, &file.symbols);
	if (!err && values == OF_TIME)
		err = request_paths_give(r, file.profile);
	return err ? err : profile_of_file(&file, ret);
}

struct gospect_error *gospect_requests_profile(const struct gospect_requests *r,
					       struct gospect_profile **ret)
{
	return error_out(make_profile(r, OF_TIME, ret));
}

struct gospect_error *gospect_requests_wakers(const struct gospect_requests *r,
					      struct gospect_profile **ret)
{
	return error_out(make_profile(r, OF_WAKERS, ret));
}

struct gospect_error *gospect_requests_allocations(const struct gospect_requests *r,
						   struct gospect_profile **ret)
{
	return error_out(make_profile(r, OF_ALLOCATIONS, ret));
}
