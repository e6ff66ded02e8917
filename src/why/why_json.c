/* One JSON object, as the interface promises its keys. */
#include <json-c/json.h>
#include <string.h>

#include "base/printable.h"
#include "base/utf8.h"
#include "why/why_rules.h"

/* Strings come from the target; JSON wants UTF-8. */
static struct json_object *json_text(const char *s)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	utf8_add(&sb, s, strlen(s));
	return sb.failed ? NULL : json_object_new_string_len(sb.data, (int)sb.length);
}

static struct json_object *finding_json(const struct why_finding *f)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "kind", json_text(f->kind));
	json_object_object_add(o, "severity", json_text(why_severity_name(f->severity)));
	json_object_object_add(o, "sentence", json_text(f->sentence));
	json_object_object_add(o, "evidence", json_text(f->evidence));
	json_object_object_add(o, "next", json_text(f->next));
	return o;
}

void why_write_json(const struct why_findings *f, FILE *out)
{
	struct json_object *all = json_object_new_object();
	struct json_object *findings = json_object_new_array();
	struct json_object *unknown = json_object_new_array();

	for (size_t i = 0; i < f->count; i++)
		json_object_array_add(findings, finding_json(&f->items[i]));
	for (size_t i = 0; i < f->unknown_count; i++)
		json_object_array_add(unknown, json_text(f->unknown[i]));
	json_object_object_add(all, "findings", findings);
	json_object_object_add(all, "unknown", unknown);
	printable_write_json(json_object_to_json_string_ext(all,
							    JSON_C_TO_STRING_PRETTY |
								    JSON_C_TO_STRING_SPACED |
								    JSON_C_TO_STRING_NOSLASHESCAPE),
			     out);
	fputc('\n', out);
	json_object_put(all);
}
