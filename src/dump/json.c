/* Writes the JSON of a dump. One goroutine at a time is built and printed, so that a million need
 * no memory. */
#include <json-c/json.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "dump/traceback.h"

static void cleanup_json(struct json_object **object)
{
	json_object_put(*object);
}
#define _cleanup_json_ __attribute__((cleanup(cleanup_json)))

/* The compiler nests arguments five deep (TraceArgsMaxDepth). */
#define MAX_NESTED 16

/* Strings come from the target; JSON requires UTF-8. */
static struct json_object *json_text(const char *s)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	utf8_add(&sb, s, strlen(s));
	return sb.failed ? NULL : json_object_new_string_len(sb.data, sb.length);
}

/* "0x1, {0x2, ...}" as a list of texts and lists. The text is gospect's own. */
static struct json_object *arguments_json(const char *text)
{
	struct json_object *lists[MAX_NESTED] = {json_object_new_array()};
	size_t depth = 0;

	while (*text) {
		size_t length = strcspn(text, ",{} ");
		struct json_object *inner;

		if (length)
			json_object_array_add(lists[depth],
					      json_object_new_string_len(text, (int)length));
		text += length;
		if (*text == '{' && depth + 1 < MAX_NESTED) {
			inner = json_object_new_array();
			json_object_array_add(lists[depth], inner);
			lists[++depth] = inner;
		} else if (*text == '}' && depth) {
			depth--;
		}
		text += *text != '\0';
	}
	return lists[0];
}

static struct json_object *local_json(const struct local_value *l)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "name", json_text(l->name));
	json_object_object_add(o, "type", json_text(l->type));
	json_object_object_add(o, "argument", json_object_new_boolean(l->is_argument));
	json_object_object_add(o, "value", json_text(l->text));
	return o;
}

static void add_values(struct json_object *o, const struct dump *dump,
		       const struct dump_goroutine *g, const struct shown_frame *f)
{
	const struct frame_values *values = traceback_values(g->values, f);
	bool known = values && values->arguments && !f->frame.inlined;
	struct json_object *locals;
	const struct local_value *l;
	size_t i = 0;

	json_object_object_add(o, "args", known ? arguments_json(values->arguments) : NULL);
	if (!values_have_locals(dump->values))
		return;
	locals = json_object_new_array();
	json_object_object_add(o, "locals", locals);
	while ((l = traceback_local(values, f, &i)))
		json_object_array_add(locals, local_json(l));
}

static struct json_object *frame_json(const struct shown_frame *f)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "func", json_text(f->frame.function));
	json_object_object_add(o, "file", json_text(f->frame.file));
	json_object_object_add(o, "line", json_object_new_int(f->frame.line));
	json_object_object_add(o, "pc", json_object_new_uint64(f->pc));
	json_object_object_add(o, "inlined", json_object_new_boolean(f->frame.inlined));
	return o;
}

static void add_label(struct json_object *o, const char *key, const char *value)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	utf8_add(&sb, key, strlen(key));
	json_object_object_add(o, sb.data, json_text(value));
}

static struct json_object *labels_json(const struct dump *dump, uint32_t id)
{
	const struct label_sets *sets = goroutine_set_labels(dump->set);
	struct label_set set = label_sets_get(sets, id);
	struct json_object *o = json_object_new_object();

	for (uint32_t i = 0; i < set.count; i++)
		add_label(o, intern_get(&sets->strings, set.labels[i].key),
			  intern_get(&sets->strings, set.labels[i].value));
	return o;
}

static struct json_object *creator_json(const struct dump *dump, const struct dump_goroutine *g)
{
	struct json_object *o;
	struct shown_frame f;

	if (!traceback_creator(dump->img, g, true, &f))
		return NULL;
	o = json_object_new_object();
	json_object_object_add(o, "func", json_text(f.frame.function));
	json_object_object_add(o, "file", json_text(f.frame.file));
	json_object_object_add(o, "line", json_object_new_int(f.frame.line));
	json_object_object_add(o, "goroutine",
			       g->parent ? json_object_new_uint64(g->parent) : NULL);
	return o;
}

static const char *no_stack(const struct dump *dump, const struct dump_goroutine *g)
{
	if (!g->unknown)
		return "running";
	return dump->core ? "missing" : "changing";
}

static struct error *frames_json(const struct dump *dump, const struct dump_goroutine *g, bool all,
				 struct json_object *o)
{
	_cleanup_traceback_ struct traceback tb = {0};
	struct stack stack = stacks_get(goroutine_set_stacks(dump->set), g->stack);
	struct json_object *frames = json_object_new_array();
	struct error *err = NULL;

	json_object_object_add(o, "frames", frames);
	if (!dump_has_stack(g)) {
		json_object_object_add(o, "no_stack", json_object_new_string(no_stack(dump, g)));
		return NULL;
	}
	err = traceback_of(dump->img, stack, all, TRACEBACK_WHOLE, &tb);
	for (size_t i = 0; !err && i < tb.count; i++) {
		struct json_object *frame = frame_json(&tb.frames[i]);

		if (dump->values)
			add_values(frame, dump, g, &tb.frames[i]);
		json_object_array_add(frames, frame);
	}
	if (stack.truncated)
		json_object_object_add(o, "truncated", json_object_new_boolean(true));
	return err;
}

static void add_connection(struct json_object *o, const struct wait_object *c)
{
	if (c->fd >= 0)
		json_object_object_add(o, "fd", json_object_new_int64(c->fd));
	if (*c->local)
		json_object_object_add(o, "local", json_text(c->local));
	if (*c->remote)
		json_object_object_add(o, "peer", json_text(c->remote));
}

/* With the digits of nanoseconds, and no more. */
static struct json_object *seconds_json(uint64_t ns)
{
	char text[32];

	snprintf(text, sizeof(text), "%.9g", ns / 1e9);
	return json_object_new_double_s(ns / 1e9, text);
}

static struct error *goroutine_json(const struct dump *dump, const struct dump_goroutine *g,
				    bool all, struct json_object *o)
{
	const char *reason = dump_wait_reason(dump, g);
	bool known = g->wait_since && g->wait_since <= dump->taken &&
		     (g->status == G_WAITING || g->status == G_SYSCALL);

	json_object_object_add(o, "id", json_object_new_uint64(g->id));
	json_object_object_add(o, "state", json_object_new_string(dump_status(g)));
	json_object_object_add(o, "wait_reason", *reason ? json_text(reason) : NULL);
	if (known)
		json_object_object_add(o, "wait_seconds",
				       seconds_json(dump->taken - g->wait_since));
	json_object_object_add(o, "labels", labels_json(dump, g->labels));
	json_object_object_add(o, "created_by", creator_json(dump, g));
	json_object_object_add(o, "thread", g->thread ? json_object_new_int(g->thread) : NULL);
	json_object_object_add(o, "locked", json_object_new_boolean(g->locked));
	json_object_object_add(o, "system", json_object_new_boolean(g->system));
	if (g->connection)
		add_connection(o, g->connection);
	return frames_json(dump, g, all, o);
}

static void add_core(struct json_object *o, const struct dump *dump)
{
	const struct target_core *core = dump->core;
	const char *name = core->signal > 0 ? sigabbrev_np(core->signal) : NULL;
	const struct goroutine_stats *stats = goroutine_set_stats(dump->set);
	char text[32];

	json_object_object_add(o, "core", json_text(core->path));
	json_object_object_add(o, "command", json_text(core->command));
	json_object_object_add(o, "truncated", json_object_new_boolean(core->truncated));
	json_object_object_add(o, "missing_goroutines",
			       json_object_new_uint64(stats->missing + stats->faults));
	json_object_object_add(o, "signal",
			       core->signal ? json_object_new_int(core->signal) : NULL);
	snprintf(text, sizeof(text), "SIG%s", name ? name : "?");
	json_object_object_add(o, "signal_name", name ? json_object_new_string(text) : NULL);
	json_object_object_add(o, "signal_thread", json_object_new_int(core->thread));
	json_object_object_add(o, "panic", dump->panic ? json_text(dump->panic) : NULL);
}

static struct json_object *process_json(const struct dump *dump)
{
	const struct image *img = dump->img;
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "pid", json_object_new_int(dump->pid));
	json_object_object_add(o, "exe", json_text(dump->exe));
	json_object_object_add(o, "go_version",
			       img->info.version ? json_text(img->info.version) : NULL);
	json_object_object_add(o, "build_id",
			       img->elf ? json_text(elf_file_build_id(img->elf)) : NULL);
	json_object_object_add(o, "unwind",
			       json_object_new_string(unwind_method_name(dump_method(dump))));
	if (dump->core)
		add_core(o, dump);
	return o;
}

static void write_json(struct json_object *o, FILE *out)
{
	printable_write_json(json_object_to_json_string_ext(o, JSON_C_TO_STRING_NOSLASHESCAPE),
			     out);
}

struct error *dump_write_json(const struct dump *dump, bool all, FILE *out)
{
	_cleanup_json_ struct json_object *process = process_json(dump);
	struct error *err = NULL;

	fputs("{\"process\":", out);
	write_json(process, out);
	fputs(",\n\"goroutines\":[", out);
	for (size_t i = 0; !err && i < dump->count; i++) {
		_cleanup_json_ struct json_object *o = json_object_new_object();

		err = goroutine_json(dump, &dump->items[i], all, o);
		if (err)
			break;
		fputs(i ? ",\n" : "\n", out);
		write_json(o, out);
	}
	if (!err)
		fputs("\n]}\n", out);
	return err;
}
