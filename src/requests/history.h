/* The spans of every goroutine of a trace, to go back from the end of a wait to who ended it. */
#ifndef REQUESTS_HISTORY_H
#define REQUESTS_HISTORY_H

#include "base/map.h"
#include "requests/spans.h"

/* One span; it ends where the next one begins. */
struct history_entry {
	uint64_t begin;
	uint64_t ended_by; /* of a wait: the goroutine; 0: none, or not known */
	uint32_t stack;
	uint32_t ended_stack; /* where that one stood */
	uint32_t reason;
	uint8_t state; /* enum trace_status */
};

struct history_life {
	uint64_t g;
	uint64_t end;
	uint64_t creator; /* 0: not known */
	uint32_t creator_stack;
	uint32_t start;
	struct history_entry *entries;
	size_t count;
	size_t capacity;
};

struct history {
	struct map lives; /* goid -> struct history_life * */
	size_t spans;     /* of all */
};

/* Those of one goroutine come in the order of time. */
struct error *history_add(struct history *h, const struct span *span) must_check;
/* NULL: there is none. */
const struct history_life *history_of(const struct history *h, uint64_t g);
/* The end of an entry. */
static inline uint64_t history_end(const struct history_life *life, size_t i)
{
	return i + 1 < life->count ? life->entries[i + 1].begin : life->end;
}
/* The first entry that ends behind this moment; life->count: none. */
size_t history_at(const struct history_life *life, uint64_t moment);
/* Forgets spans that had ended by then. */
void history_forget(struct history *h, uint64_t before);
void history_release(struct history *h);

#endif
