/*
 * Reads JSON: speedscope files (speedscope.c) whose profiles are "sampled", dumps (dump/json.c),
 * and profiles of the Firefox Profiler (read_firefox.c).
 */
#include <json-c/json.h>
#include <limits.h>
#include <string.h>

#include "base/cancel.h"
#include "base/cleanup.h"
#include "profile/json_member.h"
#include "profile/read_firefox.h"
#include "profile/rebuild.h"

/* json-c takes some 100 bytes for each value: 12 GB for a file of the largest size. */
#define MOST_BYTES (128u << 20)
#define DEEPEST 16

static void put(struct json_object **object)
{
	json_object_put(*object);
}

bool json_is(const void *bytes, size_t size)
{
	const char *text = bytes;
	size_t i = 0;

	while (i < size && strchr(" \t\r\n", text[i]) && text[i])
		i++;
	return i < size && text[i] == '{';
}

static uint64_t number_of(struct json_object *value)
{
	return json_whole_number(json_object_get_double(value));
}

static struct error *add_frame(struct rebuild *r, struct json_object *frame, const char *name)
{
	struct json_object *function = json_member(frame, name, json_type_string);
	struct json_object *line = json_member(frame, "line", json_type_int);
	uint64_t number = line ? number_of(line) : 0;

	if (!function)
		return rebuild_corrupt("one of its frames has no function");
	return rebuild_frame(r, json_object_get_string(function),
			     json_object_get_string_len(function), json_text_of(frame, "file"),
			     number <= INT_MAX ? number : 0);
}

/* PROFILE_STATES: no state has this name. */
static int state_named(const char *name)
{
	int state = 0;

	while (state < PROFILE_STATES && strcmp(name, profile_state_name(state)))
		state++;
	return state;
}

/* ---- speedscope ---- */

static struct error *add_stack(struct rebuild *r, struct json_object *frames,
			       struct json_object *stack)
{
	struct error *err = NULL;

	if (!json_object_is_type(stack, json_type_array))
		return rebuild_corrupt("one of its samples is no stack");
	for (size_t i = json_length(stack); !err && i-- > 0;) {
		struct json_object *index = json_object_array_get_idx(stack, i);
		int64_t at = json_object_get_int64(index);

		if (!json_object_is_type(index, json_type_int) || at < 0 ||
		    (size_t)at >= json_length(frames))
			return rebuild_corrupt("one of its stacks has a frame that is not there");
		err = add_frame(r, json_object_array_get_idx(frames, at), "name");
	}
	return err;
}

/* Adds to the sample with this stack, or creates it. */
static struct error *add_weight(struct rebuild *r, struct profile_sample *sample)
{
	uint32_t place;
	struct error *err;

	sample->pcs = r->pcs;
	sample->depth = r->depth;
	r->depth = 0;
	err = profile_add_at(r->profile, sample, &place);
	if (!err && sample->wall_ns)
		r->profile->samples[place].count = 1;
	return err;
}

static struct error *read_sampled(struct rebuild *r, struct json_object *frames,
				  struct json_object *profile, const atomic_int *cancel)
{
	struct json_object *samples = json_member(profile, "samples", json_type_array);
	struct json_object *weights = json_member(profile, "weights", json_type_array);
	bool timed = !strcmp(json_text_of(profile, "unit"), "nanoseconds");
	int state = state_named(json_text_of(profile, "name"));
	struct error *err = NULL;

	if (!frames || !samples || json_length(samples) != json_length(weights))
		return rebuild_corrupt("it is no speedscope file with a sampled profile");
	for (size_t i = 0; !err && i < json_length(samples); i++) {
		uint64_t weight = number_of(json_object_array_get_idx(weights, i));
		struct profile_sample sample = {.state = state < PROFILE_STATES
								 ? (enum profile_state)state
								 : PROFILE_RUNNING,
						.count = timed ? 1 : weight,
						.wall_ns = timed ? weight : 0};

		err = cancel_check(cancel);
		if (!err)
			err = add_stack(r, frames, json_object_array_get_idx(samples, i));
		if (!err)
			err = add_weight(r, &sample);
	}
	return err;
}

static struct error *read_speedscope(struct rebuild *r, struct json_object *root,
				     const atomic_int *cancel)
{
	struct json_object *frames = json_member(json_member(root, "shared", json_type_object),
						 "frames", json_type_array);
	struct json_object *all = json_member(root, "profiles", json_type_array);
	bool has_states = true;
	struct error *err = NULL;

	if (!json_length(all))
		return rebuild_corrupt("it is no speedscope file with a sampled profile");
	for (size_t i = 0; !err && i < json_length(all); i++) {
		struct json_object *profile = json_object_array_get_idx(all, i);

		has_states &= state_named(json_text_of(profile, "name")) < PROFILE_STATES;
		err = read_sampled(r, frames, profile, cancel);
	}
	if (err)
		return err;
	return profile_add_comment(r->profile,
				   has_states ? "from a speedscope file: wait reasons are not known"
					      : "from a speedscope file: states are not known");
}

/* ---- a dump ---- */

static struct error *add_goroutine(struct rebuild *r, struct json_object *goroutine)
{
	struct json_object *frames = json_member(goroutine, "frames", json_type_array);
	int state = state_named(json_text_of(goroutine, "state"));
	struct profile_sample sample = {.state = state < PROFILE_STATES ? (enum profile_state)state
									: PROFILE_WAITING,
					.count = 1};
	struct error *err = NULL;

	for (size_t i = 0; !err && i < json_length(frames); i++)
		err = add_frame(r, json_object_array_get_idx(frames, i), "func");
	if (!err && sample.state == PROFILE_WAITING)
		sample.wait = rebuild_string(r, json_text_of(goroutine, "wait_reason"));
	if (!err && sample.wait == INTERN_FAILED)
		return &error_no_memory;
	return err ? err : rebuild_sample(r, &sample);
}

static struct error *read_dump(struct rebuild *r, struct json_object *goroutines,
			       const atomic_int *cancel)
{
	struct error *err = NULL;

	for (size_t i = 0; !err && i < json_length(goroutines); i++) {
		err = cancel_check(cancel);
		if (!err)
			err = add_goroutine(r, json_object_array_get_idx(goroutines, i));
	}
	return err;
}

static struct json_object *parse(const void *bytes, size_t size)
{
	struct json_tokener *tokener = json_tokener_new_ex(DEEPEST);
	struct json_object *root = tokener ? json_tokener_parse_ex(tokener, bytes, size) : NULL;

	if (tokener)
		json_tokener_free(tokener);
	return root;
}

struct error *json_read(const void *bytes, size_t size, const atomic_int *cancel,
			struct profile_file *ret)
{
	_cleanup_(put) struct json_object *root = size > MOST_BYTES ? NULL : parse(bytes, size);
	_cleanup_rebuild_ struct rebuild r;
	struct error *err = rebuild_init(&r);
	struct json_object *goroutines;

	if (!err && !root)
		err = rebuild_corrupt(size > MOST_BYTES ? "it is too large for JSON"
							: "its JSON is not valid");
	if (err)
		return err;
	goroutines = json_member(root, "goroutines", json_type_array);
	if (goroutines)
		err = read_dump(&r, goroutines, cancel);
	else if (firefox_is(root))
		err = firefox_read(&r, root, cancel);
	else
		err = read_speedscope(&r, root, cancel);
	return err ? err : rebuild_finish(&r, ret);
}
