/* Members of parsed JSON, whose types are unknown. */
#ifndef PROFILE_JSON_MEMBER_H
#define PROFILE_JSON_MEMBER_H

#include <json-c/json.h>
#include <stdint.h>

/* NULL: there is no such member, or it has another type. */
static inline struct json_object *json_member(struct json_object *of, const char *name,
					      enum json_type type)
{
	struct json_object *ret = NULL;

	if (!json_object_is_type(of, json_type_object) ||
	    !json_object_object_get_ex(of, name, &ret))
		return NULL;
	return json_object_is_type(ret, type) ? ret : NULL;
}

/* "" if there is none. */
static inline const char *json_text_of(struct json_object *of, const char *name)
{
	struct json_object *text = json_member(of, name, json_type_string);

	return text ? json_object_get_string(text) : "";
}

/* 0 for negative numbers, and from 2^62 on. */
static inline uint64_t json_whole_number(double number)
{
	return number > 0 && number < 0x1p62 ? (uint64_t)number : 0;
}

static inline size_t json_length(struct json_object *array)
{
	return array ? json_object_array_length(array) : 0;
}

#endif
