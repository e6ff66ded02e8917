#include "profile/json_text.h"

#include <json-c/json.h>
#include <string.h>

#include "base/printable.h"
#include "base/strbuf.h"
#include "base/utf8.h"

struct error *json_text_write_bytes(const char *bytes, size_t length, FILE *out)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT, safe = STRBUF_INIT;
	struct json_object *object;
	const char *json;

	utf8_add(&sb, bytes, length);
	object = sb.failed ? NULL : json_object_new_string_len(sb.data, sb.length);
	json = object ? json_object_to_json_string_ext(object, JSON_C_TO_STRING_NOSLASHESCAPE)
		      : NULL;
	for (const char *c = json; c && *c; c++) {
		if (*c == '<')
			strbuf_adds(&safe, "\\u003c");
		else
			strbuf_addc(&safe, *c);
	}
	json_object_put(object);
	if (!json || safe.failed)
		return &error_no_memory;
	printable_write_json(safe.data, out);
	return NULL;
}

struct error *json_text_write(const char *text, FILE *out)
{
	return json_text_write_bytes(text, strlen(text), out);
}
