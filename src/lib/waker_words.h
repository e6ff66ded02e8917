/*
 * The stack of a waker graph: where a goroutine waited, from its start function on, then how the
 * wait ended, then where the goroutine that ended it stood.
 */
#ifndef LIB_WAKER_WORDS_H
#define LIB_WAKER_WORDS_H

#include "profile/profile.h"
#include "profile/profile_symbols.h"
#include "requests/spans.h"

struct waker_words {
	uint64_t *pcs; /* of the last sample */
	size_t capacity;
	uint64_t total; /* words so far: wakers of a hostile trace could have any number */
};

/* Fills in the stack of the sample, of a wait at `stack` for this reason. False: no memory. */
bool waker_words(struct waker_words *w, const struct span_tables *tables, uint32_t stack,
		 const char *reason, const struct span_by *ended, struct profile_sample *sample);

/* Resolves the words, as a function of struct symbol_source. */
size_t waker_word_frames(const void *tables, uint64_t word, struct go_frame *ret, size_t max);

void waker_words_release(struct waker_words *w);

/* What ends a wait for this reason, when no goroutine does: "timer". */
const char *waker_cause(const char *reason);

#endif
