#include "profile/rebuild.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/utf8.h"
#include "profile/profile_symbols.h"

#define FIRST_WORD (STACK_PC_LAST_PSEUDO + 1)
/* The most frames of a stack. */
#define MOST_DEPTH (1u << 20)

struct error *rebuild_corrupt(const char *what)
{
	return error_format(ERROR_CORRUPT, "%s", what);
}

struct error *rebuild_init(struct rebuild *r)
{
	*r = (struct rebuild){.profile = profile_create()};
	return r->profile ? NULL : &error_no_memory;
}

void rebuild_release(struct rebuild *r)
{
	profile_destroy(r->profile);
	intern_release(&r->texts);
	intern_release(&r->frames);
	free(r->pcs);
}

struct error *rebuild_add_frame(struct rebuild *r, struct rebuilt_frame frame)
{
	uint32_t id = intern_bytes(&r->frames, &frame, sizeof(frame));

	if (r->depth == MOST_DEPTH)
		return rebuild_corrupt("one of its stacks is too deep");
	if (id == INTERN_FAILED || !array_reserve(&r->pcs, &r->capacity, r->depth + 1))
		return &error_no_memory;
	r->pcs[r->depth++] = FIRST_WORD + id;
	return NULL;
}

struct error *rebuild_frame(struct rebuild *r, const char *function, size_t length,
			    const char *file, uint32_t line)
{
	struct rebuilt_frame frame = {
		.function = utf8_intern(&r->texts, function, length),
		.file = utf8_intern(&r->texts, file, strlen(file)),
		.line = line,
	};

	if (frame.function == INTERN_FAILED || frame.file == INTERN_FAILED)
		return &error_no_memory;
	return rebuild_add_frame(r, frame);
}

void rebuild_turn(struct rebuild *r)
{
	for (size_t i = 0, k = r->depth; i + 1 < k; i++, k--) {
		uint64_t swap = r->pcs[i];

		r->pcs[i] = r->pcs[k - 1];
		r->pcs[k - 1] = swap;
	}
}

struct error *rebuild_sample(struct rebuild *r, struct profile_sample *sample)
{
	sample->pcs = r->pcs;
	sample->depth = r->depth;
	r->depth = 0;
	return profile_append(r->profile, sample);
}

uint32_t rebuild_string(struct rebuild *r, const char *text)
{
	return utf8_intern(&r->profile->strings, text, strlen(text));
}

static size_t frames_of(const void *functions, uint64_t word, struct go_frame *ret, size_t max)
{
	const struct rebuild *r = functions;
	struct rebuilt_frame frame;

	if (!max || word < FIRST_WORD || word - FIRST_WORD >= r->frames.count ||
	    r->frames.strings[word - FIRST_WORD].length != sizeof(frame))
		return 0;
	memcpy(&frame, r->frames.strings[word - FIRST_WORD].data, sizeof(frame));
	ret[0] = (struct go_frame){.function = intern_get(&r->texts, frame.function),
				   .file = intern_get(&r->texts, frame.file),
				   .line = frame.line};
	return 1;
}

struct error *rebuild_finish(struct rebuild *r, struct profile_file *ret)
{
	struct symbol_source source = {frames_of, r};
	struct error *err = symbols_create(r->profile, &source, &ret->symbols);

	if (err)
		return err;
	ret->profile = take_ptr(r->profile);
	return NULL;
}
