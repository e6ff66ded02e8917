#include "profile/read_firefox.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "base/cleanup.h"
#include "profile/json_member.h"
#include "profile/rebuild.h"

/* Limit for all stacks: a small file can hold many deep stacks with a common root. */
#define MOST_FRAMES (1u << 24)

struct reading {
	struct rebuild *r;
	const atomic_int *cancel;
	struct json_object *strings;
	struct json_object *categories;
	size_t frames; /* so far */
};

/* The columns of a thread that are read. */
struct tables {
	struct json_object *stack_frame, *stack_prefix;
	struct json_object *frame_function, *frame_line, *frame_category, *frame_subcategory;
	struct json_object *function_name, *function_file;
};

static struct error *must_check wrong_index(void)
{
	return rebuild_corrupt("one of its indices is out of range");
}

bool firefox_is(struct json_object *root)
{
	return json_member(json_member(root, "meta", json_type_object),
			   "preprocessedProfileVersion", json_type_int);
}

static struct json_object *column(struct json_object *thread, const char *table, const char *name)
{
	return json_member(json_member(thread, table, json_type_object), name, json_type_array);
}

static bool index_at(struct json_object *array, size_t at, size_t count, size_t *ret)
{
	struct json_object *item =
		at < json_length(array) ? json_object_array_get_idx(array, at) : NULL;
	int64_t value = json_object_get_int64(item);

	*ret = value;
	return json_object_is_type(item, json_type_int) && value >= 0 && (size_t)value < count;
}

static struct json_object *string_at(const struct reading *f, size_t at)
{
	struct json_object *text =
		at < json_length(f->strings) ? json_object_array_get_idx(f->strings, at) : NULL;

	return json_object_is_type(text, json_type_string) ? text : NULL;
}

static struct error *must_check add_frame(struct reading *f, const struct tables *t, size_t frame)
{
	size_t function, name, file, line;
	struct json_object *text, *path = NULL;

	if (!index_at(t->frame_function, frame, json_length(t->function_name), &function) ||
	    !index_at(t->function_name, function, json_length(f->strings), &name))
		return wrong_index();
	text = string_at(f, name);
	if (!text)
		return rebuild_corrupt("one of its frames has no function");
	if (index_at(t->function_file, function, json_length(f->strings), &file))
		path = string_at(f, file);
	if (!index_at(t->frame_line, frame, INT_MAX, &line))
		line = 0;
	return rebuild_frame(f->r, json_object_get_string(text), json_object_get_string_len(text),
			     path ? json_object_get_string(path) : "", line);
}

/* Adds the frames from the innermost out. */
static struct error *must_check add_stack(struct reading *f, const struct tables *t, size_t node)
{
	struct error *err = NULL;
	size_t frame, above;

	for (; !err; node = above) {
		if (++f->frames > MOST_FRAMES)
			return rebuild_corrupt("its stacks have too many frames");
		if (!index_at(t->stack_frame, node, json_length(t->frame_function), &frame))
			return wrong_index();
		err = add_frame(f, t, frame);
		if (node >= json_length(t->stack_prefix))
			return err ? err : wrong_index();
		if (!json_object_array_get_idx(t->stack_prefix, node))
			return err;
		if (!err && !index_at(t->stack_prefix, node, node, &above))
			return wrong_index();
	}
	return err;
}

/* The wait reason is the subcategory of the innermost frame; 0, "Other", means none. */
static const char *wait_of(const struct reading *f, const struct tables *t, size_t node)
{
	size_t frame, category, at;
	struct json_object *names, *name;

	if (!index_at(t->stack_frame, node, json_length(t->frame_function), &frame) ||
	    !index_at(t->frame_category, frame, json_length(f->categories), &category))
		return "";
	names = json_member(json_object_array_get_idx(f->categories, category), "subcategories",
			    json_type_array);
	if (!index_at(t->frame_subcategory, frame, json_length(names), &at) || !at)
		return "";
	name = json_object_array_get_idx(names, at);
	return json_object_is_type(name, json_type_string) ? json_object_get_string(name) : "";
}

static int state_named(const char *name)
{
	int state = 0;

	while (state < PROFILE_STATES && strcmp(name, profile_state_name(state)))
		state++;
	return state;
}

/* Sums the weights of each stack. */
static struct error *must_check sum_weights(struct json_object *thread, size_t count, double *sums)
{
	struct json_object *stacks = column(thread, "samples", "stack");
	struct json_object *weights = column(thread, "samples", "weight");

	if (!stacks || (weights && json_length(weights) != json_length(stacks)))
		return rebuild_corrupt("one of its threads has no samples");
	for (size_t i = 0; i < json_length(stacks); i++) {
		size_t at;

		if (!json_object_array_get_idx(stacks, i))
			continue;
		if (!index_at(stacks, i, count, &at))
			return wrong_index();
		sums[at] +=
			weights ? json_object_get_double(json_object_array_get_idx(weights, i)) : 1;
	}
	return NULL;
}

static struct error *must_check add_samples(struct reading *f, struct json_object *thread,
					    const struct tables *t, const double *sums)
{
	const char *type =
		json_text_of(json_member(thread, "samples", json_type_object), "weightType");
	int state = state_named(json_text_of(thread, "name"));
	bool timed = !strcmp(type, "tracing-ms");
	struct error *err = NULL;

	for (size_t i = 0; !err && i < json_length(t->stack_frame); i++) {
		uint64_t value = json_whole_number(timed ? sums[i] * 1e6 + 0.5 : sums[i]);
		struct profile_sample sample = {.state = state < PROFILE_STATES
								 ? (enum profile_state)state
								 : PROFILE_RUNNING,
						.count = timed ? 1 : value,
						.wall_ns = timed ? value : 0};

		if (!value)
			continue;
		err = cancel_check(f->cancel);
		if (!err)
			err = add_stack(f, t, i);
		if (!err && sample.state == PROFILE_WAITING)
			sample.wait = rebuild_string(f->r, wait_of(f, t, i));
		if (sample.wait == INTERN_FAILED)
			return &error_no_memory;
		if (!err)
			err = rebuild_sample(f->r, &sample);
	}
	return err;
}

static struct error *must_check read_thread(struct reading *f, struct json_object *thread)
{
	const struct tables t = {
		.stack_frame = column(thread, "stackTable", "frame"),
		.stack_prefix = column(thread, "stackTable", "prefix"),
		.frame_function = column(thread, "frameTable", "func"),
		.frame_line = column(thread, "frameTable", "line"),
		.frame_category = column(thread, "frameTable", "category"),
		.frame_subcategory = column(thread, "frameTable", "subcategory"),
		.function_name = column(thread, "funcTable", "name"),
		.function_file = column(thread, "funcTable", "fileName"),
	};
	size_t count = json_length(t.stack_frame);
	_cleanup_free_ double *sums = calloc(count + 1, sizeof(*sums));
	struct error *err = sums ? sum_weights(thread, count, sums) : &error_no_memory;

	return err ? err : add_samples(f, thread, &t, sums);
}

struct error *firefox_read(struct rebuild *r, struct json_object *root, const atomic_int *cancel)
{
	struct json_object *meta = json_member(root, "meta", json_type_object);
	struct json_object *threads = json_member(root, "threads", json_type_array);
	struct reading f = {
		.r = r,
		.cancel = cancel,
		.strings = column(root, "shared", "stringArray"),
		.categories = json_member(meta, "categories", json_type_array),
	};
	bool has_states = true;
	struct error *err = NULL;

	if (!threads || !f.strings)
		return rebuild_corrupt("it is no Firefox profile of version 56 or 57");
	for (size_t i = 0; !err && i < json_length(threads); i++) {
		struct json_object *thread = json_object_array_get_idx(threads, i);

		has_states &= state_named(json_text_of(thread, "name")) < PROFILE_STATES;
		err = read_thread(&f, thread);
	}
	if (err || has_states)
		return err;
	return profile_add_comment(r->profile, "from a Firefox profile: states are not known");
}
