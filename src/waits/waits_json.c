/* One JSON object. Its objects are built and printed one at a time. */
#include <inttypes.h>
#include <json-c/json.h>
#include <string.h>

#include "base/printable.h"
#include "base/utf8.h"
#include "waits/wait_words.h"

static void cleanup_json(struct json_object **object)
{
	json_object_put(*object);
}
#define _cleanup_json_ __attribute__((cleanup(cleanup_json)))

/* Strings come from the target; JSON wants UTF-8. */
static struct json_object *json_string(const char *s)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	utf8_add(&sb, s, strlen(s));
	return sb.failed ? NULL : json_object_new_string_len(sb.data, sb.length);
}

/* null when it is empty. */
static struct json_object *json_name(const char *s)
{
	return *s ? json_string(s) : NULL;
}

static struct json_object *json_address(uint64_t address)
{
	char text[32];

	if (!address)
		return NULL;
	snprintf(text, sizeof(text), "0x%" PRIx64, address);
	return json_object_new_string(text);
}

static void add_place(struct json_object *o, const struct wait_place *p)
{
	json_object_object_add(o, "func", json_name(p->function));
	json_object_object_add(o, "file", json_name(p->file));
	json_object_object_add(o, "line", json_object_new_int(p->line));
}

static struct json_object *waiter_json(const struct wait_graph *w, const struct wait_edge *e)
{
	static const char *const sides[] = {[WAIT_RECEIVE] = "receive",
					    [WAIT_SEND] = "send",
					    [WAIT_READ] = "read",
					    [WAIT_WRITE] = "write"};
	const struct wait_goroutine *g = &w->goroutines[e->goroutine];
	struct json_object *o = json_object_new_object();
	uint64_t age = wait_age(w, g);

	json_object_object_add(o, "goroutine", json_object_new_uint64(g->id));
	add_place(o, &g->place);
	json_object_object_add(o, "wait_reason", json_name(wait_state(w, g)));
	json_object_object_add(o, "since_ns", age ? json_object_new_uint64(age) : NULL);
	json_object_object_add(o, "side",
			       e->side == WAIT_ANY ? NULL : json_object_new_string(sides[e->side]));
	json_object_object_add(o, "cases",
			       e->is_case ? json_object_new_uint64(g->edge_count) : NULL);
	return o;
}

static struct json_object *holder_json(const struct wait_graph *w, const struct wait_holder *h)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "goroutine",
			       json_object_new_uint64(w->goroutines[h->goroutine].id));
	add_place(o, &h->place);
	json_object_object_add(o, "certainty",
			       json_object_new_string(h->proved ? "proved" : "candidate"));
	json_object_object_add(o, "why", json_string(h->why));
	return o;
}

/* Members of all objects, null where they do not apply; then those of one kind alone. */
static void add_state(struct json_object *j, const struct wait_graph *w,
		      const struct wait_object *o)
{
	bool channel = o->known && o->kind == WAIT_CHANNEL;
	bool lock = o->known && (o->kind == WAIT_MUTEX || o->kind == WAIT_RWMUTEX);

	json_object_object_add(j, "len", channel ? json_object_new_uint64(o->length) : NULL);
	json_object_object_add(j, "cap", channel ? json_object_new_uint64(o->capacity) : NULL);
	json_object_object_add(j, "closed", channel ? json_object_new_boolean(o->closed) : NULL);
	json_object_object_add(j, "locked", lock ? json_object_new_boolean(o->locked) : NULL);
	if (lock)
		json_object_object_add(j, "starving", json_object_new_boolean(o->starving));
	if (lock && o->kind == WAIT_RWMUTEX)
		json_object_object_add(j, "readers", json_object_new_int64(o->readers));
	if (o->known && o->kind == WAIT_WAITGROUP)
		json_object_object_add(j, "counter", json_object_new_int64(o->counter));
	if (o->known && o->kind == WAIT_TIMER && o->due && w->taken)
		json_object_object_add(j, "due_ns",
				       json_object_new_int64((int64_t)(o->due - w->taken)));
	if (o->fd >= 0)
		json_object_object_add(j, "fd", json_object_new_int64(o->fd));
	if (o->kind == WAIT_NETWORK) {
		json_object_object_add(j, "local", json_name(o->local));
		json_object_object_add(j, "remote", json_name(o->remote));
	}
}

static struct json_object *object_json(const struct wait_graph *w, const struct wait_object *o)
{
	struct json_object *j = json_object_new_object(), *waiters = json_object_new_array(),
			   *holders = json_object_new_array();

	json_object_object_add(j, "kind", json_object_new_string(wait_kind_name(o->kind)));
	json_object_object_add(j, "address", json_address(o->address));
	json_object_object_add(j, "name", json_name(o->name));
	add_state(j, w, o);
	for (size_t i = 0; i < o->waiter_count; i++)
		json_object_array_add(waiters, waiter_json(w, &w->edges[o->waiters[i]]));
	for (size_t i = 0; i < o->holder_count; i++)
		json_object_array_add(holders, holder_json(w, &o->holders[i]));
	json_object_object_add(j, "waiters", waiters);
	json_object_object_add(j, "holders", holders);
	return j;
}

static struct json_object *object_words(const struct wait_object *o)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	words_add_object(&sb, o);
	return sb.failed ? NULL : json_string(sb.data);
}

/* A goroutine holds the object that the previous one waits for. */
static struct json_object *cycle_json(const struct wait_graph *w, const struct wait_cycle *c)
{
	struct json_object *steps = json_object_new_array();

	for (size_t i = 0; i < c->count; i++) {
		const struct wait_step *s = &c->steps[i];
		const struct wait_step *before = &c->steps[(i + c->count - 1) % c->count];
		const struct wait_goroutine *g = &w->goroutines[s->goroutine];
		struct json_object *o = json_object_new_object();

		json_object_object_add(o, "goroutine", json_object_new_uint64(g->id));
		add_place(o, &g->place);
		json_object_object_add(o, "waits_for", object_words(&w->objects[s->object]));
		json_object_object_add(o, "holds", object_words(&w->objects[before->object]));
		json_object_array_add(steps, o);
	}
	return steps;
}

static void write_json(struct json_object *o, FILE *out)
{
	printable_write_json(json_object_to_json_string_ext(o, JSON_C_TO_STRING_NOSLASHESCAPE),
			     out);
}

static void write_cycles(const struct wait_graph *w, bool proved, FILE *out)
{
	bool first = true;

	for (size_t i = 0; i < w->cycle_count; i++) {
		_cleanup_json_ struct json_object *o = NULL;

		if (w->cycles[i].proved != proved)
			continue;
		o = cycle_json(w, &w->cycles[i]);
		fputs(first ? "\n" : ",\n", out);
		write_json(o, out);
		first = false;
	}
	fputc(']', out);
}

void wait_graph_write_json(const struct wait_graph *w, FILE *out)
{
	fputs("{\"objects\": [", out);
	for (size_t i = 0; i < w->object_count; i++) {
		_cleanup_json_ struct json_object *o = object_json(w, &w->objects[i]);

		fputs(i ? ",\n" : "\n", out);
		write_json(o, out);
	}
	fputs("],\n\"cycles\": [", out);
	write_cycles(w, true, out);
	fputs(",\n\"suspicions\": [", out);
	write_cycles(w, false, out);
	fprintf(out,
		",\n\"goroutines\": %zu, \"running\": %zu, \"moved\": %zu, \"unknown\": %zu, "
		"\"truncated\": %s}\n",
		w->alive, w->running, w->moved, w->unknown, w->truncated ? "true" : "false");
}
