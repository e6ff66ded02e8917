#include "goroutine/set.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"

/* Entries of the list that are read at once. */
#define LIST_PIECE (1u << 16)
#define MAX_WAIT_REASONS 128
/* Bits of an address that one pass sorts by: the table fits the first-level cache. */
#define SORT_BITS 11
/* A burst: at least so many new goroutines, and such a share of those in skipped units. */
enum { BURST_SHARE = 4, BURST_LEAST = 1000 };

static char *read_reason(struct target *t, const uint64_t header[2])
{
	char text[128];
	size_t n = header[1] < sizeof(text) ? header[1] : 0;

	if (error_dropped(target_read(t, header[0], text, n)))
		n = 0;
	return strndup(text, n);
}

static struct error *read_wait_reasons(struct goroutine_set *set)
{
	size_t count = set->lay->v.wait_reason_count;
	uint64_t headers[MAX_WAIT_REASONS][2];
	struct error *err;

	if (count > MAX_WAIT_REASONS)
		count = MAX_WAIT_REASONS;
	set->coroutine_reason = SIZE_MAX;
	set->wait_reasons = calloc(count + 1, sizeof(*set->wait_reasons));
	if (!set->wait_reasons)
		return &error_no_memory;
	err = target_read(set->t, set->lay->v.wait_reason_strings, headers, count * 16);
	if (err)
		return error_wrap(err, "cannot read the table of wait reasons");
	for (size_t i = 0; i < count; i++) {
		set->wait_reasons[i] = read_reason(set->t, headers[i]);
		if (!set->wait_reasons[i])
			return &error_no_memory;
		if (!strcmp(set->wait_reasons[i], "coroutine"))
			set->coroutine_reason = i;
		set->wait_reason_count++;
	}
	return NULL;
}

const char *goroutine_set_wait_reason(const struct goroutine_set *set, uint8_t reason)
{
	return reason < set->wait_reason_count ? set->wait_reasons[reason] : "unknown wait reason";
}

/* What a core file lacks has no names. */
static struct error *must_check open_names(struct goroutine_set *set)
{
	struct error *err =
		request_names_open(set->t, set->img, set->lay, &set->options, &set->names);

	if (!err || err->code != ERROR_FAULT)
		return err;
	error_destroy(err);
	return NULL;
}

struct error *goroutine_set_open(struct target *t, const struct image *img,
				 const struct golayout *lay,
				 const struct goroutine_options *options,
				 struct goroutine_set **ret)
{
	_cleanup_goroutine_set_ struct goroutine_set *set = calloc(1, sizeof(*set));
	struct error *err;

	if (!set)
		return &error_no_memory;
	set->t = t;
	set->img = img;
	set->lay = lay;
	set->options = *options;
	set->labels.maps = lay->minor < 24;
	set->header_size = golayout_g_bytes(&lay->n);
	set->stacks = stacks_create(&img->functions, img->machine);
	set->again = malloc(set->header_size);
	set->named = malloc(set->header_size);
	if (!set->stacks || !set->again || !set->named)
		return &error_no_memory;
	stacks_unwind_by(set->stacks, &options->unwind);
	err = read_wait_reasons(set);
	if (!err && options->request_names)
		err = open_names(set);
	if (err)
		return err;
	*ret = take_ptr(set);
	return NULL;
}

void goroutine_set_close(struct goroutine_set *set)
{
	if (!set)
		return;
	for (size_t i = 0; i < set->wait_reason_count; i++)
		free(set->wait_reasons[i]);
	free(set->wait_reasons);
	stacks_destroy(set->stacks);
	label_sets_release(&set->labels);
	map_release(&set->start_kinds);
	map_release(&set->running);
	map_release(&set->unknown);
	plan_release(&set->plan);
	plan_release(&set->batch);
	plan_release(&set->confirm);
	free(set->g);
	free(set->records);
	free(set->offsets);
	free(set->units);
	free(set->headers);
	free(set->pending_reads);
	free(set->batch_bytes);
	free(set->confirm_bytes);
	free(set->batch_pieces);
	free(set->again);
	free(set->running_bytes);
	free(set->named);
	request_names_close(set->names);
	free(set);
}

/* One pass of the sort, by `bits` bits from `shift` on. */
static void sort_by_digit(const uint64_t *from, uint64_t *to, size_t count, int shift, int bits)
{
	size_t places[1 << SORT_BITS] = {0}, at = 0, mask = (1u << bits) - 1;

	for (size_t i = 0; i < count; i++)
		places[from[i] >> shift & mask]++;
	for (size_t d = 0; d <= mask; d++) {
		size_t n = places[d];

		places[d] = at;
		at += n;
	}
	for (size_t i = 0; i < count; i++)
		to[places[from[i] >> shift & mask]++] = from[i];
}

/*
 * Sorts addresses by the bits in which they differ (heap addresses share high and low bits), with a
 * radix sort of the fewest passes. *room is as large as *g; they may be swapped. A million
 * addresses take 10 ms; qsort() takes 100.
 */
static void sort_addresses(uint64_t **g, uint64_t **room, size_t count)
{
	uint64_t differ = 0, *swap;
	int low, high, passes, bits;

	for (size_t i = 0; i < count; i++)
		differ |= (*g)[i] ^ (*g)[0];
	if (!differ)
		return;
	low = __builtin_ctzll(differ);
	high = 64 - __builtin_clzll(differ);
	passes = (high - low + SORT_BITS - 1) / SORT_BITS;
	bits = (high - low + passes - 1) / passes;
	for (int shift = low; shift < high; shift += bits) {
		sort_by_digit(*g, *room, count, shift, bits);
		swap = *g;
		*g = *room;
		*room = swap;
	}
}

/* For the first addresses: they become the set's as they are. */
static void take_all(struct goroutine_set *set, uint64_t **g, size_t count)
{
	free(set->g);
	set->g = take_ptr(*g);
	set->count = set->capacity = count;
}

/* Merges sorted new addresses into the others, from the end backwards. Records behind the last stay
 * untouched zeros: of a million, few may ever be scanned. */
static bool merge(struct goroutine_set *set, uint64_t **all_fresh, size_t fresh_count)
{
	size_t before = set->count, old = before, to = old + fresh_count, from = fresh_count;
	const uint64_t *fresh = *all_fresh;

	if (!array_reserve(&set->records, &set->record_capacity, to))
		return false;
	if (!before) {
		take_all(set, all_fresh, fresh_count);
		return true;
	}
	if (!array_reserve(&set->g, &set->capacity, to))
		return false;
	set->count = to;
	while (from) {
		to--;
		if (old && set->g[old - 1] > fresh[from - 1]) {
			old--;
			set->g[to] = set->g[old];
			set->records[to] = set->records[old];
		} else {
			set->g[to] = fresh[--from];
			if (to < before)
				set->records[to] = (struct goroutine_record){0};
		}
	}
	return true;
}

/* An entry of allgs is never 0 or unaligned. Invalid entries of a hostile target are dropped. */
static size_t drop_garbage(uint64_t *g, size_t count)
{
	size_t n = 0;

	for (size_t i = 0; i < count; i++)
		if (g[i] && !(g[i] & 7) && g[i] < STACK_PC_EXACT >> 8)
			g[n++] = g[i];
	return n;
}

/* Reads the part of a piece of the list that a truncated core file has; the rest is 0 and is
 * dropped as garbage. ERROR_FAULT when nothing of it is there. */
static struct error *read_remains(struct goroutine_set *set, uint64_t address, uint64_t *list,
				  size_t count)
{
	size_t missing = 0;

	memset(list, 0, count * sizeof(*list));
	for (size_t i = 0; i < count; i++)
		missing += error_dropped(target_read_u64(set->t, address + i * 8, &list[i]));
	if (missing == count)
		return &error_fault;
	set->stats.missing += missing;
	return NULL;
}

/* Reads the list in pieces: a hostile count goes no further than the target's memory. */
static struct error *read_list(struct goroutine_set *set, uint64_t address, uint64_t **list,
			       size_t *count)
{
	struct error *err = NULL;
	size_t capacity = 0, n;

	for (size_t at = 0; !err && at < *count; at += n) {
		n = *count - at < LIST_PIECE ? *count - at : LIST_PIECE;
		if (!array_reserve(list, &capacity, at + n))
			return &error_no_memory;
		err = target_read(set->t, address + at * 8, *list + at, n * 8);
		if (!err || err->code != ERROR_FAULT || !target_core(set->t))
			continue;
		err = read_remains(set, address + at * 8, *list + at, n);
		if (!error_dropped(err))
			continue;
		set->stats.missing += *count - at;
		*count = at;
		return NULL;
	}
	return err;
}

/* Removes addresses that are known already. In a hostile target they may repeat or overlap. */
static size_t drop_known(const struct goroutine_set *set, uint64_t *g, size_t count)
{
	size_t n = 0, place;

	for (size_t i = 0; i < count; i++)
		if ((!n || g[i] - g[n - 1] >= set->header_size) &&
		    !goroutine_set_find(set, g[i], &place))
			g[n++] = g[i];
	return n;
}

/* The length of the list, and the number of ids assigned; 0 when unreadable. */
static struct error *read_counts(struct goroutine_set *set, uint64_t *ret_length,
				 uint64_t *ret_goids)
{
	const struct target_range both[] = {
		{set->lay->v.allglen, sizeof(*ret_length), ret_length},
		{sched_at_goidgen(&set->lay->n, set->lay->v.sched), sizeof(*ret_goids), ret_goids},
	};
	size_t done;
	struct error *err = target_read_ranges(set->t, both, ARRAY_SIZE(both), &done);

	if (!err && done < ARRAY_SIZE(both))
		*ret_goids = 0;
	return !err && !done ? &error_fault : err;
}

/* Schedules units of dead goroutines for a scan when many goroutines were created since the last
 * call. `goids` is how many ids were assigned so far; 0: not known. */
static void notice_births(struct goroutine_set *set, uint64_t goids)
{
	uint64_t resting = 0;

	if (!set->options.keep_state || !goids)
		return;
	for (size_t i = 0; i < set->unit_count; i++)
		resting += set->units[i].pause ? set->units[i].count : 0;
	if (goids - set->goids >= BURST_LEAST && goids - set->goids >= resting / BURST_SHARE)
		for (size_t i = 0; i < set->unit_count; i++)
			set->units[i].pause = 0;
	set->goids = goids;
}

/* allglen is read before allgptr, because the runtime stores it after allgptr:
 * runtime/proc.go:atomicAllG. */
struct error *goroutine_set_refresh(struct goroutine_set *set)
{
	_cleanup_free_ uint64_t *fresh = NULL, *room = NULL;
	uint64_t length, goids, array;
	struct error *err;
	size_t count;

	err = read_counts(set, &length, &goids);
	if (err)
		return err;
	notice_births(set, goids);
	if (length <= set->read)
		return NULL;
	err = golayout_check_count(set->lay, set->t, length);
	if (err)
		return err;
	err = target_read_u64(set->t, set->lay->v.allgptr, &array);
	if (err)
		return err;
	count = length - set->read;
	err = read_list(set, array + set->read * 8, &fresh, &count);
	if (err)
		return error_wrap(err, "cannot read the list of goroutines");
	count = drop_garbage(fresh, count);
	room = malloc((count + 1) * sizeof(*room));
	if (!room)
		return &error_no_memory;
	sort_addresses(&fresh, &room, count);
	count = drop_known(set, fresh, count);
	if (!merge(set, &fresh, count))
		return &error_no_memory;
	set->read = length;
	set->unit_count = 0;
	return NULL;
}

size_t goroutine_set_count(const struct goroutine_set *set)
{
	return set->count;
}

bool goroutine_set_find(const struct goroutine_set *set, uint64_t g, size_t *ret)
{
	size_t lo = 0, hi = set->count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (set->g[mid] < g)
			lo = mid + 1;
		else
			hi = mid;
	}
	*ret = lo;
	return lo < set->count && set->g[lo] == g;
}

static uint32_t identify_labels(struct goroutine_set *set, const struct goroutine_copy *c)
{
	uint32_t id = LABELS_NONE;
	struct error *err;

	if (c->pieces)
		err = label_sets_read_copied(&set->labels, set->t, c->labels, c->pieces,
					     c->piece_count, &id);
	else
		err = label_sets_read(&set->labels, set->t, &c->labels, 1, &id);
	return error_dropped(err) || id == LABELS_TORN ? LABELS_NONE : id;
}

void goroutine_set_served_places(const struct goroutine_set *set,
				 struct served_place ret[SERVED_PLACES])
{
	memset(ret, 0, SERVED_PLACES * sizeof(*ret));
	if (set->names)
		request_names_places(set->names, ret);
}

void goroutine_set_begin_samples(struct goroutine_set *set)
{
	if (set->names)
		request_names_begin_samples(set->names);
}

/* Adds what is known of the request that it served at that moment. */
static uint32_t identify_request(struct goroutine_set *set, const struct goroutine_copy *c,
				 uint32_t labels)
{
	const struct request_server server = {c->goid, c->stack_end, c->stack};

	if (set->names && c->served)
		error_dropped(request_names_add_served(set->names, set->stacks, &server, c->served,
						       &set->labels, &labels));
	return labels;
}

bool goroutine_set_identify(struct goroutine_set *set, uint64_t g,
			    const struct goroutine_copy *copy, struct goroutine_identity *ret)
{
	struct g_view again = header_view(set, set->again);
	struct goroutine_copy now;
	size_t place;

	if (!goroutine_set_find(set, g, &place))
		return false;
	if (!copy && error_dropped(target_read(set->t, g, set->again, set->header_size)))
		return false;
	if (!copy) {
		now = (struct goroutine_copy){
			.goid = g_view_goid(again),
			.start_pc = g_view_startpc(again),
			.labels = g_view_labels(again),
		};
		copy = &now;
	}
	*ret = (struct goroutine_identity){
		.goid = copy->goid,
		.start_pc = copy->start_pc,
		.labels = copy->labels ? identify_labels(set, copy) : LABELS_NONE,
	};
	ret->labels = identify_request(set, copy, ret->labels);
	return true;
}

struct goroutine_record *goroutine_set_records(struct goroutine_set *set)
{
	return set->records;
}

/* The unit from `first` on. */
static bool plan_unit(struct goroutine_set *set, size_t first, size_t unit_bytes, size_t *ret_next)
{
	struct goroutine_unit unit = {.first = first, .first_range = set->plan.count};
	size_t before = set->plan.bytes, i = first;
	uint64_t limit = set->g[first] + unit_bytes;

	while (i < set->count && i - first < unit_bytes / set->header_size + 1 &&
	       (i == first || set->g[i] + set->header_size <= limit ||
		(i - first) * set->header_size < unit_bytes / 2)) {
		struct plan_piece header = {set->g[i], set->header_size, 0};

		if (!plan_merge(&set->plan, &header, unit.first_range))
			return false;
		set->offsets[i++] = header.offset - before;
	}
	unit.count = i - first;
	if (!array_reserve(&set->units, &set->unit_capacity, set->unit_count + 1))
		return false;
	unit.range_count = set->plan.count - unit.first_range;
	unit.bytes = set->plan.bytes - before;
	set->units[set->unit_count++] = unit;
	*ret_next = i;
	return true;
}

struct error *goroutine_set_plan(struct goroutine_set *set, size_t unit_bytes,
				 const struct goroutine_unit **ret, size_t *ret_count)
{
	if (set->unit_count && set->planned == unit_bytes) {
		*ret = set->units;
		*ret_count = set->unit_count;
		return NULL;
	}
	set->planned = unit_bytes;
	set->unit_count = 0;
	plan_reset(&set->plan);
	if (!array_reserve(&set->offsets, &set->offset_capacity, set->count))
		return &error_no_memory;
	for (size_t i = 0; i < set->count;)
		if (!plan_unit(set, i, unit_bytes, &i))
			return &error_no_memory;
	*ret = set->units;
	*ret_count = set->unit_count;
	return NULL;
}

const struct goroutine_stats *goroutine_set_stats(const struct goroutine_set *set)
{
	return &set->stats;
}

struct stacks *goroutine_set_stacks(struct goroutine_set *set)
{
	return set->stacks;
}

const struct label_sets *goroutine_set_labels(const struct goroutine_set *set)
{
	return &set->labels;
}
