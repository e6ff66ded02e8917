/* Folded stacks (folded.c): "root;...;leaf WEIGHT" a line; the weight is microseconds, or a count.
 */
#include <string.h>

#include "base/cancel.h"
#include "base/cleanup.h"
#include "profile/rebuild.h"

/* A weight beyond it is none that a recording can have. */
#define MOST_WEIGHT (1ull << 52)

/* The length of the stack in front of the weight; 0: it is no such line. */
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

static struct error *read_line(struct rebuild *r, const char *line, size_t length)
{
	struct profile_sample sample = {.state = PROFILE_RUNNING, .count = 1};
	struct error *err = NULL;
	uint64_t weight;
	size_t end = split(line, length, &weight);

	if (!end)
		return rebuild_corrupt("a line of its folded stacks has no weight");
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

	while (!err && size) {
		size_t length = line_length(text, size), step = length + (length < size);

		err = cancel_check(cancel);
		if (!err && length)
			err = read_line(&r, text, length);
		text += step;
		size -= step;
	}
	if (!err)
		err = profile_add_comment(r.profile, "from folded stacks: states are not known");
	return err ? err : rebuild_finish(&r, ret);
}
