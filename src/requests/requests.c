#include "requests/requests.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/utf8.h"
#include "gotrace/label_text.h"

#define NO_REQUEST (UINT64_MAX - 1)

static struct traced_request *append(struct requests *r, uint32_t name, uint32_t per, uint64_t g)
{
	struct traced_request *item;

	if (!array_reserve(&r->items, &r->capacity, r->count + 1))
		return NULL;
	item = &r->items[r->count++];
	*item = (struct traced_request){.name = name, .per = per, .g = g};
	return item;
}

struct traced_request *requests_new(struct requests *r, const char *name, uint64_t g)
{
	uint32_t number = intern_string(&r->names, name);
	struct traced_request *item;

	if (number == INTERN_FAILED)
		return NULL;
	item = append(r, number, number, g);
	if (item)
		item->goroutines = 1;
	return item;
}

/* ---- by label ---- */

/* The value of the key in the line, as a number in names; false: there is none. */
static bool value_of(struct requests *r, const char *line, const char *key, uint32_t *ret,
		     bool *failed)
{
	_cleanup_strbuf_ struct strbuf value = STRBUF_INIT;

	if (!label_text_find(line, key, &value))
		return false;
	*ret = utf8_intern(&r->names, value.data, value.length);
	*failed |= value.failed || *ret == INTERN_FAILED;
	return true;
}

/* The index + 1 of the request with these labels; NO_REQUEST; 0: no memory. */
static uint64_t resolve(struct requests *r, const struct span_tables *tables,
			const struct span *span)
{
	const char *line = intern_get(&tables->texts, span->labels);
	uint32_t name = 0, per = 0;
	bool failed = false;
	uint64_t *place;

	if (!value_of(r, line, r->key, &name, &failed))
		return NO_REQUEST;
	if (r->per)
		value_of(r, line, r->per, &per, &failed);
	place = failed ? NULL : map_at(&r->by_name, (uint64_t)per << 32 | name);
	if (!place)
		return 0;
	if (!*place && append(r, name, per, span->g))
		*place = r->count;
	return *place;
}

static bool count_goroutine(struct requests *r, struct traced_request *item, uint64_t g)
{
	uint64_t key = hash_u64((uint64_t)(item - r->items) << 40 ^ g) >> 1;
	uint64_t *place = map_at(&r->goroutines, key);

	if (!place)
		return false;
	item->goroutines += !*place;
	*place = 1;
	return true;
}

struct error *requests_add(struct requests *r, const struct span_tables *tables,
			   const struct span *span)
{
	uint64_t *place;
	struct traced_request *item;

	if (!span->labels || span_is_system(tables, span))
		return NULL;
	place = map_at(&r->by_labels, span->labels);
	if (!place)
		return &error_no_memory;
	if (!*place)
		*place = resolve(r, tables, span);
	if (*place == NO_REQUEST)
		return NULL;
	if (!*place)
		return &error_no_memory;
	item = &r->items[*place - 1];
	if (span->moment == SPAN_SAMPLE)
		return request_add_sample(item, span);
	if (span->moment == SPAN_ALLOC)
		return request_add_allocation(item, span);
	return count_goroutine(r, item, span->g) ? request_credit(item, span) : &error_no_memory;
}

/* ---- the parts of a request ---- */

static int by_begin(const void *a, const void *b)
{
	const struct request_interval *x = a, *y = b;

	return (x->begin > y->begin) - (x->begin < y->begin);
}

/* Sorts the intervals, and joins those that touch. */
static void merge_intervals(struct traced_request *item)
{
	struct request_interval *in = item->intervals;
	size_t n = 0;

	if (!item->interval_count)
		return;
	qsort(in, item->interval_count, sizeof(*in), by_begin);
	for (size_t i = 1; i < item->interval_count; i++) {
		if (in[i].begin > in[n].end)
			in[++n] = in[i];
		else if (in[i].end > in[n].end)
			in[n].end = in[i].end;
	}
	item->interval_count = n + 1;
}

/* Spans come in about the order of time, so most belong to the last interval. */
static bool add_interval(struct traced_request *item, uint64_t begin, uint64_t end)
{
	struct request_interval *last =
		item->interval_count ? &item->intervals[item->interval_count - 1] : NULL;

	if (last && begin >= last->begin && begin <= last->end) {
		last->end = last->end > end ? last->end : end;
		return true;
	}
	if (item->interval_count == item->interval_capacity)
		merge_intervals(item);
	if (!array_reserve(&item->intervals, &item->interval_capacity,
			   2 * item->interval_count + 1))
		return false;
	item->intervals[item->interval_count++] = (struct request_interval){begin, end};
	return true;
}

/* With more places than this, a request has an index of them. */
#define SEARCHED_PLACES 16

static bool index_place(struct traced_request *item, size_t i)
{
	const struct request_place *p = &item->places[i];
	uint64_t *index = map_at(&item->place_index,
				 (uint64_t)p->stack << 32 | (uint32_t)(p->reason << 3 | p->state));

	if (index)
		*index = i + 1;
	return index;
}

static struct request_place *find_place(struct traced_request *item, const struct span *span)
{
	const uint64_t *index;

	for (size_t i = 0; i < item->place_count && item->place_count < SEARCHED_PLACES; i++) {
		struct request_place *p = &item->places[i];

		if (p->stack == span->stack && p->state == span->state && p->reason == span->reason)
			return p;
	}
	index = map_find(&item->place_index,
			 (uint64_t)span->stack << 32 | (uint32_t)(span->reason << 3 | span->state));
	return index ? &item->places[*index - 1] : NULL;
}

/* NULL: no memory. */
static struct request_place *new_place(struct traced_request *item, const struct span *span)
{
	bool indexed = true;

	if (!array_reserve(&item->places, &item->place_capacity, item->place_count + 1))
		return NULL;
	item->places[item->place_count++] =
		(struct request_place){span->state, span->reason, span->stack, 0, 0, 0};
	if (item->place_count == SEARCHED_PLACES)
		for (size_t i = 0; i < SEARCHED_PLACES; i++)
			indexed &= index_place(item, i);
	else if (item->place_count > SEARCHED_PLACES)
		indexed = index_place(item, item->place_count - 1);
	return indexed ? &item->places[item->place_count - 1] : NULL;
}

static bool add_place(struct traced_request *item, const struct span *span)
{
	struct request_place *p;

	/* Samples say where it was while it ran. */
	if (span->state == TRACE_RUNNING)
		return true;
	p = find_place(item, span) ?: new_place(item, span);
	if (!p)
		return false;
	p->ns += span->end - span->begin;
	p->count++;
	if (span->waited_ns > p->waited_ns)
		p->waited_ns = span->waited_ns;
	return !span->ended.is_known ||
	       wakers_add(&item->wakers, &(struct waker){.place = p - item->places,
							 .stack = span->ended.stack,
							 .g = span->ended.goroutine,
							 .ns = span->end - span->begin,
							 .count = 1});
}

struct error *request_add_sample(struct traced_request *item, const struct span *sample)
{
	struct request_place *p = find_place(item, sample) ?: new_place(item, sample);

	if (!p)
		return &error_no_memory;
	p->function = sample->function;
	p->count++;
	return NULL;
}

void request_take_facts(struct traced_request *item, const struct span_facts *facts)
{
	if (facts->request && item->facts.request && facts->request != item->facts.request)
		item->of_several = true;
	item->facts.request = facts->request ?: item->facts.request;
	item->facts.route = facts->route ?: item->facts.route;
	item->facts.status = facts->status ?: item->facts.status;
}

struct error *request_credit(struct traced_request *item, const struct span *span)
{
	uint64_t ns = span->end - span->begin;

	request_take_facts(item, &span->facts);
	if (!add_interval(item, span->begin, span->end) || !add_place(item, span))
		return &error_no_memory;
	if (!item->total_ns || span->begin < item->begin)
		item->begin = span->begin;
	if (span->end >= item->end)
		item->last = span->g;
	if (span->end > item->end)
		item->end = span->end;
	item->ns[span->state] += ns;
	item->total_ns += ns;
	return NULL;
}

struct error *request_add_part(struct traced_request *item, const struct request_part *part)
{
	for (size_t i = 0; i < item->part_count; i++) {
		if (item->parts[i].function != part->function)
			continue;
		item->parts[i].ns += part->ns;
		item->parts[i].count += part->count;
		return NULL;
	}
	if (!array_reserve(&item->parts, &item->part_capacity, item->part_count + 1))
		return &error_no_memory;
	item->parts[item->part_count++] = *part;
	return NULL;
}

struct error *request_add_allocation(struct traced_request *item, const struct span *span)
{
	return allocations_add(&item->allocations, span->stack, span->alloc_size, span->alloc_rate)
		       ? NULL
		       : &error_no_memory;
}

static void release_parts(struct traced_request *item)
{
	allocations_release(&item->allocations);
	free(item->parts);
	running_split_release(&item->running);
	free(item->places);
	free(item->intervals);
	map_release(&item->place_index);
	wakers_release(&item->wakers);
}

void request_reset(struct traced_request *item)
{
	struct traced_request fresh = {.name = item->name,
				       .per = item->per,
				       .g = item->g,
				       .goroutines = item->goroutines};

	release_parts(item);
	*item = fresh;
}

/* ---- by trace id ---- */

/* Where those at the other's place are counted; NULL: no memory. */
static struct request_place *join_place(struct traced_request *into,
					const struct request_place *from)
{
	const struct span span = {.state = from->state,
				  .reason = from->reason,
				  .stack = from->stack};
	struct request_place *p = find_place(into, &span) ?: new_place(into, &span);

	if (!p)
		return NULL;
	p->ns += from->ns;
	p->count += from->count;
	p->function = from->function;
	if (from->waited_ns > p->waited_ns)
		p->waited_ns = from->waited_ns;
	return p;
}

static bool join_places(struct traced_request *into, const struct traced_request *from)
{
	_cleanup_free_ uint32_t *places = calloc(from->place_count + 1, sizeof(*places));
	bool joined = places;

	for (size_t i = 0; joined && i < from->place_count; i++) {
		const struct request_place *p = join_place(into, &from->places[i]);

		joined = p;
		places[i] = p ? p - into->places : 0;
	}
	for (size_t i = 0; joined && i < from->wakers.count; i++) {
		struct waker waker = from->wakers.items[i];

		waker.place = places[waker.place];
		joined = wakers_add(&into->wakers, &waker);
	}
	return joined;
}

/* Adds all parts of the other. */
static bool join(struct traced_request *into, const struct traced_request *from)
{
	bool joined = join_places(into, from);

	for (size_t i = 0; joined && i < from->interval_count; i++)
		joined = add_interval(into, from->intervals[i].begin, from->intervals[i].end);
	for (size_t i = 0; joined && i < from->part_count; i++)
		joined = !request_add_part(into, &from->parts[i]);
	joined = joined && allocations_join(&into->allocations, &from->allocations);
	for (size_t i = 0; i <= TRACE_WAITING; i++)
		into->ns[i] += from->ns[i];
	into->total_ns += from->total_ns;
	into->edge_ns += from->edge_ns;
	into->before |= from->before;
	if (from->begin < into->begin) {
		into->begin = from->begin;
		into->facts = from->facts;
	}
	if (from->end > into->end) {
		into->end = from->end;
		into->last = from->last;
	}
	return joined;
}

/* The number of the request's trace id in names; 0: it has none. */
static uint32_t trace_of(struct requests *r, const struct span_tables *tables,
			 const struct traced_request *item, bool *failed)
{
	_cleanup_strbuf_ struct strbuf id = STRBUF_INIT;
	const char *line = intern_get(&tables->texts, item->facts.request);
	uint32_t number;

	if (!item->facts.request || item->of_several || !item->total_ns ||
	    !label_text_find(line, "trace_id", &id))
		return 0;
	number = utf8_intern(&r->names, id.data, id.length);
	*failed |= id.failed || number == INTERN_FAILED;
	return number;
}

/* Adds it to the first one of its trace, or keeps it as that. */
static bool join_trace(struct requests *r, size_t i, uint32_t trace, size_t *kept)
{
	struct traced_request *item = &r->items[i], *first;
	uint64_t *place = map_at(&r->by_name, trace);
	bool joined;

	if (!place)
		return false;
	if (*place) {
		first = &r->items[*place - 1];
		joined = join(first, item) && count_goroutine(r, first, item->g);
		release_parts(item);
		return joined;
	}
	first = &r->items[*kept];
	*first = *item;
	first->name = first->per = trace;
	first->goroutines = 0;
	*place = ++*kept;
	return count_goroutine(r, first, first->g);
}

struct error *requests_join_traces(struct requests *r, const struct span_tables *tables)
{
	bool failed = false;
	size_t kept = 0;

	map_release(&r->by_name);
	map_release(&r->goroutines);
	for (size_t i = 0; i < r->count; i++) {
		uint32_t trace = failed ? 0 : trace_of(r, tables, &r->items[i], &failed);

		if (trace && !failed)
			failed = !join_trace(r, i, trace, &kept);
		else
			release_parts(&r->items[i]);
	}
	r->count = kept;
	return failed ? &error_no_memory : NULL;
}

/* ---- all of them ---- */

static int by_number(uint64_t a, uint64_t b)
{
	return a < b ? 1 : a > b ? -1 : 0;
}

static int by_elapsed(const void *a, const void *b)
{
	const struct traced_request *x = a, *y = b;

	return by_number(x->elapsed_ns, y->elapsed_ns) ?: -by_number(x->begin, y->begin);
}

static int by_place_time(const void *a, const void *b)
{
	return by_number(((const struct request_place *)a)->ns,
			 ((const struct request_place *)b)->ns);
}

static int by_part_time(const void *a, const void *b)
{
	const struct request_part *x = a, *y = b;

	return by_number(x->ns, y->ns) ?: -by_number(x->function, y->function);
}

/* Its samples share the time in which it ran. */
static bool share_running(struct traced_request *item)
{
	uint64_t ns = item->ns[TRACE_RUNNING];

	for (size_t i = 0; i < item->place_count; i++) {
		const struct request_place *p = &item->places[i];

		if (p->state == TRACE_RUNNING &&
		    !running_split_add(&item->running, p->function, p->count))
			return false;
	}
	for (size_t i = 0; i < item->place_count; i++) {
		struct request_place *p = &item->places[i];

		if (p->state != TRACE_RUNNING)
			continue;
		p->ns = sampled_ns(p->count, item->running.samples, ns);
		p->error_ns = sampled_error_ns(p->count, item->running.samples, ns);
	}
	running_split_complete(&item->running, ns);
	return true;
}

static void complete_places(struct traced_request *item)
{
	if (item->part_count)
		qsort(item->parts, item->part_count, sizeof(*item->parts), by_part_time);
	allocations_complete(&item->allocations);
	wakers_complete(&item->wakers);
	for (size_t i = 0; i < item->place_count; i++)
		item->places[i].wakers = wakers_of(&item->wakers, i, &item->places[i].waker_count);
	if (item->place_count)
		qsort(item->places, item->place_count, sizeof(*item->places), by_place_time);
}

struct error *requests_complete(struct requests *r, uint64_t duration)
{
	bool failed = false;

	for (size_t i = 0; i < r->count; i++) {
		struct traced_request *item = &r->items[i];

		map_release(&item->place_index);
		merge_intervals(item);
		for (size_t k = 0; k < item->interval_count; k++)
			item->elapsed_ns += item->intervals[k].end - item->intervals[k].begin;
		item->cut = item->before || !item->begin || item->end >= duration;
		failed |= !share_running(item);
		complete_places(item);
	}
	map_release(&r->by_labels);
	map_release(&r->by_name);
	map_release(&r->goroutines);
	if (r->count)
		qsort(r->items, r->count, sizeof(*r->items), by_elapsed);
	return failed ? &error_no_memory : NULL;
}

void requests_keep(struct requests *r, bool (*keep)(const void *arg, const struct traced_request *),
		   const void *arg)
{
	size_t kept = 0;

	for (size_t i = 0; i < r->count; i++) {
		if (keep(arg, &r->items[i]))
			r->items[kept++] = r->items[i];
		else
			release_parts(&r->items[i]);
	}
	r->count = kept;
}

void requests_release(struct requests *r)
{
	for (size_t i = 0; i < r->count; i++)
		release_parts(&r->items[i]);
	free(r->items);
	intern_release(&r->names);
	map_release(&r->by_labels);
	map_release(&r->by_name);
	map_release(&r->goroutines);
}

/* ---- groups ---- */

static int by_group(const void *a, const void *b)
{
	const struct traced_request *x = *(const struct traced_request *const *)a;
	const struct traced_request *y = *(const struct traced_request *const *)b;

	if (x->per != y->per)
		return x->per < y->per ? -1 : 1;
	if (x->cut != y->cut)
		return x->cut - y->cut;
	return -by_number(x->elapsed_ns, y->elapsed_ns);
}

static int by_p99(const void *a, const void *b)
{
	const struct request_group *x = a, *y = b;

	return by_number(x->p99, y->p99) ?: by_number(x->max, y->max);
}

/* The percentile of sorted items. */
static uint64_t percentile(struct traced_request **items, size_t count, unsigned int percent)
{
	return count ? items[(count * percent + 99) / 100 - 1]->elapsed_ns : 0;
}

static bool add_running(struct running_split *to, const struct running_split *from)
{
	for (size_t i = 0; i < from->count; i++)
		if (!running_split_add(to, from->items[i].function, from->items[i].samples))
			return false;
	return true;
}

static bool fill_group(struct traced_request **items, size_t count, struct request_group *ret)
{
	bool added = true;
	size_t whole = 0;

	*ret = (struct request_group){.name = items[0]->per};
	while (whole < count && !items[whole]->cut) {
		for (size_t s = 0; s <= TRACE_WAITING; s++)
			ret->ns[s] += items[whole]->ns[s];
		added &= add_running(&ret->running, &items[whole]->running);
		allocation_sum_join(&ret->allocated, &items[whole]->allocations.sum);
		ret->total_ns += items[whole++]->total_ns;
	}
	running_split_complete(&ret->running, ret->ns[TRACE_RUNNING]);
	ret->count = whole;
	ret->cut = count - whole;
	ret->p50 = percentile(items, whole, 50);
	ret->p90 = percentile(items, whole, 90);
	ret->p99 = percentile(items, whole, 99);
	ret->max = percentile(items, whole, 100);
	return added;
}

void requests_groups_release(struct request_group *groups, size_t count)
{
	for (size_t i = 0; i < count; i++)
		running_split_release(&groups[i].running);
	free(groups);
}

struct error *requests_group(const struct requests *r, struct request_group **ret,
			     size_t *ret_count)
{
	_cleanup_free_ struct traced_request **items = calloc(r->count + 1, sizeof(*items));
	struct request_group *groups = items ? calloc(r->count + 1, sizeof(*groups)) : NULL;
	bool filled = true;
	size_t n = 0;

	if (!groups)
		return &error_no_memory;
	for (size_t i = 0; i < r->count; i++)
		items[i] = &r->items[i];
	qsort(items, r->count, sizeof(*items), by_group);
	for (size_t i = 0, end; i < r->count; i = end) {
		for (end = i; end < r->count && items[end]->per == items[i]->per;)
			end++;
		filled &= fill_group(items + i, end - i, &groups[n++]);
	}
	if (!filled) {
		requests_groups_release(groups, n);
		return &error_no_memory;
	}
	qsort(groups, n, sizeof(*groups), by_p99);
	*ret = groups;
	*ret_count = n;
	return NULL;
}
