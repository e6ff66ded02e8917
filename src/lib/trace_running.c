#include "lib/trace_running.h"

#include <stdlib.h>

#include "gotrace/perfetto_reader.h"

struct running_sample {
	uint64_t key; /* of its goroutine's start function and labels */
	uint64_t ns;
	uint32_t stack;
};

static uint64_t key_of(const struct span *span)
{
	return (uint64_t)span->start << 32 | span->labels;
}

static struct error *must_check take(void *arg, const struct span *span)
{
	struct trace_running *r = arg;

	if (span->moment != SPAN_SAMPLE)
		return NULL;
	if (!array_reserve(&r->samples, &r->capacity, r->count + 1))
		return &error_no_memory;
	r->samples[r->count++] = (struct running_sample){key_of(span), span->begin, span->stack};
	return NULL;
}

static int by_key_and_time(const void *a, const void *b)
{
	const struct running_sample *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return (x->ns > y->ns) - (x->ns < y->ns);
}

static struct error *must_check sort(struct trace_running *r)
{
	if (r->count)
		qsort(r->samples, r->count, sizeof(*r->samples), by_key_and_time);
	for (size_t i = 0; i < r->count; i++) {
		uint64_t *first = map_at(&r->firsts, r->samples[i].key);

		if (!first)
			return &error_no_memory;
		if (!*first)
			*first = i + 1;
	}
	return NULL;
}

struct error *trace_running_read(struct trace_running *r, const void *bytes, size_t size,
				 const atomic_int *cancel, struct span_tables *tables)
{
	const struct trace_spans_options how = {
		.spans = {take, r, .samples = true, .cancel = cancel},
	};
	uint64_t duration;
	struct error *err;

	if (!perfetto_is(bytes, size) && !trace_reader_has_samples(bytes, size))
		return NULL;
	err = trace_spans_read(bytes, size, &how, tables, &duration);
	return err ? err : sort(r);
}

void trace_running_release(struct trace_running *r)
{
	free(r->samples);
	map_release(&r->firsts);
}

/* The index of the key's last sample at this time or before; of its first one, if all are later. */
static size_t last_before(const struct trace_running *r, size_t first, uint64_t key, uint64_t ns)
{
	size_t low = first, high = r->count;

	while (low + 1 < high) {
		size_t middle = low + (high - low) / 2;
		const struct running_sample *s = &r->samples[middle];

		if (s->key == key && s->ns <= ns)
			low = middle;
		else
			high = middle;
	}
	return low;
}

uint32_t trace_running_stack(const struct trace_running *r, const struct span *span,
			     uint64_t *ret_until)
{
	uint64_t key = key_of(span), middle;
	const uint64_t *first = map_find(&r->firsts, key);
	size_t i;

	*ret_until = UINT64_MAX;
	if (!first)
		return 0;
	i = last_before(r, *first - 1, key, span->begin);
	for (; i + 1 < r->count && r->samples[i + 1].key == key; i++) {
		middle = r->samples[i].ns + (r->samples[i + 1].ns - r->samples[i].ns) / 2;
		if (middle > span->begin) {
			*ret_until = middle;
			break;
		}
	}
	return r->samples[i].stack;
}
