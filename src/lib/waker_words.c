#include "lib/waker_words.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "lib/trace_spans.h"

/* Words of frames that are no function: numbers of these. */
#define FIRST_NAME (1ull << 41)
static const char *const names[] = {"[ended by]", "[not ended]", "[runtime]", "[timer]",
				    "[network poller]"};
enum { ENDED_BY, NOT_ENDED, BY_RUNTIME, BY_TIMER, BY_NETWORK };

/* Beyond so many words in all, samples do not have their wakers' stacks. */
#define MOST_WORDS (64u << 20)

/* Without a goroutine the scheduler runs timers, and these send to channels; and it asks the
 * network poller. Go's tracer and the runtime name a wait for that differently. */
static unsigned int cause_of(const char *reason)
{
	static const struct {
		const char *reason;
		unsigned int name;
	} causes[] = {{"network", BY_NETWORK},    {"IO wait", BY_NETWORK}, {"sleep", BY_TIMER},
		      {"chan receive", BY_TIMER}, {"chan send", BY_TIMER}, {"select", BY_TIMER}};

	for (size_t i = 0; i < ARRAY_SIZE(causes); i++)
		if (!strcmp(reason, causes[i].reason))
			return causes[i].name;
	return BY_RUNTIME;
}

const char *waker_cause(const char *reason)
{
	static const char *const causes[] = {
		[BY_RUNTIME] = "runtime",
		[BY_TIMER] = "timer",
		[BY_NETWORK] = "network poller",
	};

	return causes[cause_of(reason)];
}

static bool add_stack(struct waker_words *w, const struct span_tables *tables, uint32_t stack,
		      struct profile_sample *sample)
{
	uint32_t depth = sample->depth;
	struct profile_sample part = {0};
	uint64_t *pcs = NULL;
	size_t capacity = 0;
	bool added = span_words(tables, stack, false, &pcs, &capacity, &part) &&
		     array_reserve(&w->pcs, &w->capacity, depth + part.depth + 1);

	if (added)
		memcpy(w->pcs + depth, pcs, part.depth * sizeof(*pcs));
	sample->depth = depth + part.depth;
	free(pcs);
	return added;
}

bool waker_words(struct waker_words *w, const struct span_tables *tables, uint32_t stack,
		 const char *reason, const struct span_by *ended, struct profile_sample *sample)
{
	bool by_goroutine = ended->is_known && (ended->goroutine || ended->stack);

	sample->depth = 0;
	if (!array_reserve(&w->pcs, &w->capacity, 2))
		return false;
	if (by_goroutine && w->total < MOST_WORDS) {
		if (!add_stack(w, tables, ended->stack, sample))
			return false;
	} else if (ended->is_known) {
		w->pcs[sample->depth++] =
			by_goroutine ? STACK_PC_TRUNCATED : FIRST_NAME + cause_of(reason);
	}
	w->pcs[sample->depth++] = FIRST_NAME + (ended->is_known ? ENDED_BY : NOT_ENDED);
	if (!add_stack(w, tables, stack, sample))
		return false;
	w->total += sample->depth;
	sample->pcs = w->pcs;
	return true;
}

size_t waker_word_frames(const void *tables, uint64_t word, struct go_frame *ret, size_t max)
{
	if (word < FIRST_NAME)
		return span_word_frames(tables, word, ret, max);
	if (!max || word - FIRST_NAME >= ARRAY_SIZE(names))
		return 0;
	ret[0] = (struct go_frame){.function = names[word - FIRST_NAME], .file = ""};
	return 1;
}

void waker_words_release(struct waker_words *w)
{
	free(w->pcs);
}
