/*
 * Folded stacks (folded.c): "root;...;leaf WEIGHT" a line; the weight is microseconds, or a count.
 * If each stack ends in a frame in brackets, these are the states.
 */
#include <string.h>

#include "base/cancel.h"
#include "base/cleanup.h"
#include "profile/rebuild.h"

/* No recording has a larger weight. */
#define MOST_WEIGHT (1ull << 52)

/* The length of the stack before the weight; 0: the line has another form. */
static size_t split(const char *line, size_t length, uint64_t *ret_weight)
{
	size_t at = length;

	*ret_weight = 0;
	while (at && line[at - 1] >= '0' && line[at - 1] <= '9')
		at--;
	if (at < 2 || at == length || line[at - 1] != ' ' || length - at > 16)
		return 0;
	for (size_t i = at; i < length; i++)
		*ret_weight = *ret_weight * 10 + (line[i] - '0');
	return *ret_weight > MOST_WEIGHT ? 0 : at - 1;
}

static size_t line_length(const char *text, size_t size)
{
	const char *end = memchr(text, '\n', size);

	return end ? (size_t)(end - text) : size;
}

bool folded_is(const void *bytes, size_t size)
{
	const char *text = bytes;
	size_t length = line_length(text, size);
	uint64_t weight;

	for (size_t i = 0; i < length; i++)
		if ((unsigned char)text[i] < ' ')
			return false;
	return split(text, length, &weight) > 0;
}

/* A part of a line. */
struct part {
	const char *text;
	size_t length;
};

static bool is_text(struct part part, const char *text)
{
	return part.length == strlen(text) && !memcmp(part.text, text, part.length);
}

/* The writer uses these lines for stacks that do not fit; they have no state. */
static bool is_omission(struct part part)
{
	return is_text(part, "[deeper frames omitted]") ||
	       is_text(part, "[stacks omitted: the file would be too large]");
}

/* The text in the brackets of the stack's last frame; NULL: it has no brackets. */
static struct part state_of(const char *line, size_t end)
{
	const char *before = memrchr(line, ';', end);
	size_t from = before ? (size_t)(before - line) + 1 : 0;
	struct part frame = {line + from, end - from};

	if (is_omission(frame))
		return frame;
	if (!before || frame.length < 3 || *frame.text != '[' || line[end - 1] != ']')
		return (struct part){NULL};
	return (struct part){frame.text + 1, frame.length - 2};
}

/* Whether all stacks end in a state. */
static bool have_states(const char *text, size_t size)
{
	while (size) {
		size_t length = line_length(text, size), step = length + (length < size);
		uint64_t weight;
		size_t end = split(text, length, &weight);

		if (end && !state_of(text, end).text)
			return false;
		text += step;
		size -= step;
	}
	return true;
}

/* Sets state and wait reason; moves *end before the frame of the state. */
static struct error *read_state(struct rebuild *r, const char *line, size_t *end,
				struct profile_sample *sample)
{
	struct part part = state_of(line, *end);
	_cleanup_free_ char *wait = NULL;
	int state = 0;

	if (is_omission(part))
		return NULL;
	*end = part.text - 2 - line;
	while (state < PROFILE_STATES && !is_text(part, profile_state_name(state)))
		state++;
	sample->state = state < PROFILE_STATES ? state : PROFILE_WAITING;
	if (state < PROFILE_STATES)
		return NULL;
	wait = strndup(part.text, part.length);
	sample->wait = wait ? rebuild_string(r, wait) : INTERN_FAILED;
	return sample->wait == INTERN_FAILED ? &error_no_memory : NULL;
}

static struct error *read_line(struct rebuild *r, const char *line, size_t length, bool with_states)
{
	struct profile_sample sample = {.state = PROFILE_RUNNING, .count = 1};
	struct error *err = NULL;
	uint64_t weight;
	size_t end = split(line, length, &weight);

	if (!end)
		return rebuild_corrupt("a line of its folded stacks has no weight");
	if (with_states)
		err = read_state(r, line, &end, &sample);
	for (size_t from = 0; !err && from <= end;) {
		const char *next = memchr(line + from, ';', end - from);
		size_t to = next ? (size_t)(next - line) : end;

		err = rebuild_frame(r, line + from, to - from, "", 0);
		from = to + 1;
	}
	rebuild_turn(r);
	sample.wall_ns = weight * 1000;
	return err ? err : rebuild_sample(r, &sample);
}

struct error *folded_read(const void *bytes, size_t size, const atomic_int *cancel,
			  struct profile_file *ret)
{
	_cleanup_rebuild_ struct rebuild r;
	struct error *err = rebuild_init(&r);
	const char *text = bytes;
	bool with_states = have_states(text, size);

	while (!err && size) {
		size_t length = line_length(text, size), step = length + (length < size);

		err = cancel_check(cancel);
		if (!err && length)
			err = read_line(&r, text, length, with_states);
		text += step;
		size -= step;
	}
	if (!err && !with_states)
		err = profile_add_comment(r.profile, "from folded stacks: states are not known");
	return err ? err : rebuild_finish(&r, ret);
}
