#include "lib/request_paths_api.h"

#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/utf8.h"
#include "lib/request_texts.h"
#include "lib/trace_spans.h"
#include "profile/awaiting.h"

static const char *text_of(const struct gospect_requests *r, uint32_t number)
{
	return intern_get(&r->tables.texts, number);
}

/* Where it was: the innermost function that is not plumbing. */
static struct span_frame place_of(const struct gospect_requests *r, uint32_t stack)
{
	size_t count;
	const uint32_t *frames = span_stack(&r->tables, stack, &count);

	for (size_t i = 0; i < count; i++) {
		struct span_frame frame = span_frame(&r->tables, frames[i]);

		if (!is_plumbing(text_of(r, frame.function)))
			return frame;
	}
	return count ? span_frame(&r->tables, frames[0]) : (struct span_frame){0};
}

/* A text of the trace in the profile; INTERN_FAILED: no memory. */
static uint32_t give_text(struct profile *p, const char *text)
{
	return utf8_intern(&p->strings, text, strlen(text));
}

static bool give_part(const struct gospect_requests *r, const struct path_segment *s,
		      struct profile *p)
{
	struct span_frame place = place_of(r, s->stack);
	const char *wait = s->state == TRACE_WAITING ? text_of(r, s->reason) : "";
	const struct request_path_part part = {
		.begin = s->begin,
		.end = s->end,
		.goroutine = s->g,
		.start = give_text(p, text_of(r, s->start)),
		.wait = give_text(p, wait),
		.function = give_text(p, text_of(r, place.function)),
		.line = place.line,
		.depth = s->depth,
		.state = s->state ? span_state(s->state) : PROFILE_STATES,
	};

	return part.start != INTERN_FAILED && part.wait != INTERN_FAILED &&
	       part.function != INTERN_FAILED && request_paths_add_part(&p->requests, &part);
}

/* The least length of a part that is shown: so few parts are longer that there is room for them. */
static uint64_t least_of(const struct critical_path *path)
{
	uint64_t whole = 0;

	for (size_t i = 0; i < path->count; i++)
		whole += path->segments[i].end - path->segments[i].begin;
	return path->count <= REQUEST_PATHS_MOST_PARTS ? 0 : whole / REQUEST_PATHS_MOST_PARTS + 1;
}

/* "GET /users/7 200", or the function. */
static bool name_of(const struct gospect_requests *r, const struct traced_request *request,
		    struct strbuf *name)
{
	struct arena arena = {0};
	struct gospect_request facts;
	bool given = request_texts_give(&r->tables, request, &arena, &facts);

	if (given && *facts.method)
		strbuf_addf(name, "%s %s%s%s", facts.method, facts.url_path,
			    facts.has_status ? " " : "", facts.has_status ? facts.status_name : "");
	else
		strbuf_adds(name, intern_get(&r->inner.names, request->name));
	arena_release(&arena);
	return given && !name->failed;
}

static struct error *must_check give_path(const struct gospect_requests *r,
					  const struct history *history,
					  const struct traced_request *from, struct profile *p)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;
	struct critical_path path = {0};
	struct error *err = critical_path_find(history, from->last, from->begin, from->end, &path);
	uint64_t least = least_of(&path);
	bool given = !err && name_of(r, from, &name);
	const struct request_path request = {
		.name = given ? give_text(p, name.data) : INTERN_FAILED,
		.goroutine = from->g,
		.begin = from->begin,
		.end = from->end,
	};

	given &= request.name != INTERN_FAILED;
	if (given)
		request_paths_add(&p->requests, &request);
	for (size_t i = 0; given && i < path.count; i++)
		if (path.segments[i].end - path.segments[i].begin >= least)
			given = give_part(r, &path.segments[i], p);
	critical_path_release(&path);
	return given || err ? err : &error_no_memory;
}

struct error *request_paths_of(const struct gospect_requests *r, const struct history *history,
			       struct profile *p)
{
	struct error *err = NULL;

	for (size_t i = 0; !err && i < r->inner.count && p->requests.count < REQUEST_PATHS_MOST;
	     i++)
		err = give_path(r, history, &r->inner.items[i], p);
	return err;
}

struct error *request_paths_give(const struct gospect_requests *r, struct profile *p)
{
	return r->has_paths ? request_paths_of(r, &r->history, p) : NULL;
}
