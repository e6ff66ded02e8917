/* One JSON object: its keys are in gospect-leaks(1). */
#include <inttypes.h>
#include <json-c/json.h>
#include <string.h>

#include "base/printable.h"
#include "base/utf8.h"
#include "leaks/leak_words.h"

static void cleanup_json(struct json_object **object)
{
	json_object_put(*object);
}
#define _cleanup_json_ __attribute__((cleanup(cleanup_json)))

/* Strings come from the target; JSON wants UTF-8. null when it is empty. */
static struct json_object *json_text(const char *s)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	if (!*s)
		return NULL;
	utf8_add(&sb, s, strlen(s));
	return sb.failed ? NULL : json_object_new_string_len(sb.data, (int)sb.length);
}

static struct json_object *json_place(const struct wait_place *p)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "func", json_text(p->function));
	json_object_object_add(o, "file", json_text(p->file));
	json_object_object_add(o, "line", json_object_new_int(p->line));
	return o;
}

static struct json_object *json_words(void (*add)(struct strbuf *, const struct leak_group *),
				      const struct leak_group *group)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	add(&sb, group);
	return sb.failed ? NULL : json_text(sb.data);
}

static struct json_object *json_age(uint64_t ns)
{
	return ns ? json_object_new_uint64(ns) : NULL;
}

static struct json_object *json_growth(const struct leaks *l, const struct leak_group *group)
{
	struct json_object *o = l->compared_ns ? json_object_new_object() : NULL;

	if (!o)
		return NULL;
	json_object_object_add(o, "goroutines", json_object_new_int64(group->growth));
	json_object_object_add(o, "ns", json_object_new_uint64(l->compared_ns));
	return o;
}

static struct json_object *group_json(const struct leaks *l, const struct leak_group *group)
{
	struct json_object *o = json_object_new_object(), *ids = json_object_new_array();

	for (size_t i = 0; i < group->count; i++)
		json_object_array_add(ids, json_object_new_uint64(
						   l->waits->goroutines[group->goroutines[i]].id));
	json_object_object_add(o, "created_by", json_words(leak_words_add_creator, group));
	json_object_object_add(o, "count", json_object_new_uint64(group->count));
	json_object_object_add(o, "goroutines", ids);
	json_object_object_add(o, "waits_for", json_words(leak_words_add_wait, group));
	json_object_object_add(o, "waits_at", json_place(&group->place));
	json_object_object_add(o, "retained_bytes", json_object_new_uint64(group->retained));
	json_object_object_add(o, "oldest_ns", json_age(group->oldest));
	json_object_object_add(o, "youngest_ns", json_age(group->youngest));
	json_object_object_add(o, "last_minute", json_object_new_uint64(group->recent));
	json_object_object_add(o, "growth", json_growth(l, group));
	json_object_object_add(o, "why", json_text(group->why));
	return o;
}

static void write_groups(const struct leaks *l, bool certain, FILE *out)
{
	bool first = true;

	for (size_t i = 0; i < l->group_count; i++) {
		_cleanup_json_ struct json_object *o = NULL;

		if (l->groups[i].is_certain != certain)
			continue;
		o = group_json(l, &l->groups[i]);
		fputs(first ? "\n" : ",\n", out);
		printable_write_json(json_object_to_json_string_ext(o,
								    JSON_C_TO_STRING_NOSLASHESCAPE),
				     out);
		first = false;
	}
	fputc(']', out);
}

void leaks_write_json(const struct leaks *l, FILE *out)
{
	fputs("{\"leaked\": [", out);
	write_groups(l, true, out);
	fputs(",\n\"suspects\": [", out);
	write_groups(l, false, out);
	fprintf(out,
		",\n\"looks\": %zu, \"retained_bytes\": %" PRIu64 ", \"heap_bytes\": %" PRIu64
		", \"reachable_bytes\": %" PRIu64 "}\n",
		l->looks, l->retained, l->heap_bytes, l->reachable_bytes);
}
