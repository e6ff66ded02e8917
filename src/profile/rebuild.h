/*
 * Builds a profile from stacks whose frames are text: those of a page, a speedscope file, folded
 * stacks or a dump. For the readers of this room.
 */
#ifndef PROFILE_REBUILD_H
#define PROFILE_REBUILD_H

#include "profile/profile.h"
#include "profile/read.h"

struct rebuilt_frame {
	uint32_t function; /* both in rebuild.texts */
	uint32_t file;
	uint32_t line;
};

struct rebuild {
	struct profile *profile;
	struct intern texts;
	struct intern frames; /* of struct rebuilt_frame; words of stacks are numbers of frames,
			       * behind the pseudo words */
	uint64_t *pcs;        /* the current stack, innermost first */
	size_t depth;
	size_t capacity;
};

struct error *rebuild_init(struct rebuild *r) must_check;
void rebuild_release(struct rebuild *r);
#define _cleanup_rebuild_ __attribute__((cleanup(rebuild_release)))

/* Adds the caller of the last frame. Texts need not be UTF-8. */
struct error *rebuild_frame(struct rebuild *r, const char *function, size_t length,
			    const char *file, uint32_t line) must_check;
/* Likewise, with numbers of r->texts. */
struct error *rebuild_add_frame(struct rebuild *r, struct rebuilt_frame frame) must_check;
/* Reverses the frames, if they came from the outermost in. */
void rebuild_turn(struct rebuild *r);
/* Adds a sample with the current stack, which becomes empty. */
struct error *rebuild_sample(struct rebuild *r, struct profile_sample *sample) must_check;
/* Returns the profile with its symbols. */
struct error *rebuild_finish(struct rebuild *r, struct profile_file *ret) must_check;

/* The number of a text in r->profile->strings. It need not be UTF-8. INTERN_FAILED: no memory. */
uint32_t rebuild_string(struct rebuild *r, const char *text);

/* An error that says what is wrong with a file. */
struct error *rebuild_corrupt(const char *what) must_check;

/* Readers of gospect's files other than pprof; as profile_read(). */
bool page_is(const void *bytes, size_t size);
struct error *page_read(const void *bytes, size_t size, const atomic_int *cancel,
			struct profile_file *ret) must_check;
bool json_is(const void *bytes, size_t size);
struct error *json_read(const void *bytes, size_t size, const atomic_int *cancel,
			struct profile_file *ret) must_check;
bool folded_is(const void *bytes, size_t size);
struct error *folded_read(const void *bytes, size_t size, const atomic_int *cancel,
			  struct profile_file *ret) must_check;

#endif
