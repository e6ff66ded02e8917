#include "labels/label_sets.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "labels/go_memory.h"

struct go_label {
	struct go_string key;
	struct go_string value;
};

/* A set on its way in: its labels as the target has them, then their strings. */
struct incoming {
	struct go_label *labels;
	size_t count;
	size_t capacity;
	bool torn;
	struct label_trail *trail; /* the memory read */
};

enum { MAX_B = 7, MAX_BUCKETS = 512 };

static bool add_label(struct incoming *in, const struct go_label *label)
{
	if (in->count >= LABELS_MAX_COUNT)
		return true;
	if (!array_reserve(&in->labels, &in->capacity, in->count + 1))
		return false;
	in->labels[in->count++] = *label;
	return true;
}

/* A bucket and those that hang on it, *left at most. While the map grows, evacuated slots are
 * marked < 5. */
static struct error *read_bucket(struct target *t, uint64_t address, struct incoming *in,
				 size_t *left)
{
	struct go_bucket bucket;

	for (; address && *left; --*left, address = bucket.overflow) {
		struct error *err = target_read(t, address, &bucket, sizeof(bucket));

		if (err)
			return err;
		label_trail_add(in->trail, address, &bucket, sizeof(bucket));
		for (int k = 0; k < 8; k++) {
			struct go_label label = {bucket.keys[k], bucket.values[k]};

			if (bucket.tophash[k] >= GO_MIN_TOPHASH && !add_label(in, &label))
				return &error_no_memory;
		}
	}
	return NULL;
}

static struct error *read_buckets(struct target *t, uint64_t address, size_t count,
				  struct incoming *in, size_t *left)
{
	struct error *err = NULL;

	for (size_t i = 0; !err && address && i < count; i++)
		err = read_bucket(t, address + i * sizeof(struct go_bucket), in, left);
	return err;
}

static struct error *read_map(struct target *t, uint64_t pointer, struct incoming *in)
{
	size_t left = MAX_BUCKETS;
	struct go_hmap map;
	uint64_t address;
	struct error *err = target_read_u64(t, pointer, &address);

	if (!err && address)
		err = target_read(t, address, &map, sizeof(map));
	if (err || !address)
		return err;
	label_trail_add(in->trail, pointer, &address, sizeof(address));
	label_trail_add(in->trail, address, &map, sizeof(map));
	if (map.b > MAX_B || map.count > LABELS_MAX_COUNT)
		return &error_fault;
	err = read_buckets(t, map.buckets, 1u << map.b, in, &left);
	if (!err && map.b)
		err = read_buckets(t, map.oldbuckets, 1u << (map.b - 1), in, &left);
	return err;
}

static struct error *read_maps(struct target *t, const uint64_t *pointers, size_t count,
			       struct incoming *in)
{
	for (size_t i = 0; i < count; i++) {
		struct error *err = pointers[i] ? read_map(t, pointers[i], &in[i]) : NULL;

		if (err && err != &error_fault)
			return err;
		in[i].torn = err != NULL;
		in[i].count = err ? 0 : in[i].count;
	}
	return NULL;
}

/* Go 1.24 on: {pointer, length, capacity}, then the labels, each in one batch for all sets. */
static struct error *read_slices(struct target *t, const uint64_t *pointers, size_t count,
				 struct incoming *in)
{
	_cleanup_free_ struct target_range *ranges = calloc(count, sizeof(*ranges));
	_cleanup_free_ uint64_t(*slices)[3] = calloc(count, sizeof(*slices));
	_cleanup_free_ bool *ok = calloc(count, sizeof(*ok));
	struct error *err;

	if (!ranges || !slices || !ok)
		return &error_no_memory;
	for (size_t i = 0; i < count; i++)
		ranges[i] = (struct target_range){pointers[i], pointers[i] ? sizeof(slices[i]) : 0,
						  slices[i]};
	err = target_read_each(t, ranges, count, ok);
	if (err)
		return err;
	for (size_t i = 0; i < count; i++) {
		size_t n = slices[i][1];

		in[i].torn = pointers[i] && (!ok[i] || n > LABELS_MAX_COUNT || n > slices[i][2]);
		n = in[i].torn ? 0 : n;
		if (!array_reserve(&in[i].labels, &in[i].capacity, n))
			return &error_no_memory;
		in[i].count = n;
		label_trail_add(in[i].trail, pointers[i], slices[i], sizeof(slices[i]));
		ranges[i] = (struct target_range){slices[i][0], n * sizeof(*in[i].labels),
						  in[i].labels};
	}
	err = target_read_each(t, ranges, count, ok);
	for (size_t i = 0; !err && i < count; i++) {
		in[i].torn |= !ok[i];
		in[i].count = ok[i] ? in[i].count : 0;
		label_trail_add(in[i].trail, ranges[i].address, in[i].labels,
				in[i].count * sizeof(*in[i].labels));
	}
	return err;
}

static void cut_string(struct go_string *s, size_t *left)
{
	if (s->length > LABELS_MAX_STRING)
		s->length = LABELS_MAX_STRING;
	if (s->length > *left)
		s->length = *left;
	*left -= s->length;
}

static void cut_strings(struct incoming *in)
{
	size_t left = LABELS_MAX_TEXT;

	for (size_t k = 0; k < in->count; k++) {
		cut_string(&in->labels[k].key, &left);
		cut_string(&in->labels[k].value, &left);
	}
}

/* The bytes of all strings, concatenated in *ret. */
static struct error *read_strings(struct target *t, struct incoming *in, size_t count, char **ret)
{
	_cleanup_free_ struct target_range *ranges = NULL;
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ bool *ok = NULL;
	size_t strings = 0, bytes = 1, n = 0;
	struct error *err;

	for (size_t i = 0; i < count; i++) {
		cut_strings(&in[i]);
		for (size_t k = 0; k < in[i].count; k++, strings += 2)
			bytes += in[i].labels[k].key.length + in[i].labels[k].value.length;
	}
	ranges = calloc(strings + 1, sizeof(*ranges));
	text = calloc(bytes, 1);
	ok = calloc(strings + 1, sizeof(*ok));
	if (!ranges || !text || !ok)
		return &error_no_memory;
	bytes = 0;
	for (size_t i = 0; i < count; i++) {
		for (size_t k = 0; k < 2 * in[i].count; k++) {
			struct go_label *label = &in[i].labels[k / 2];
			struct go_string *s = k % 2 ? &label->value : &label->key;

			ranges[n++] = (struct target_range){s->data, s->length, text + bytes};
			bytes += s->length;
		}
	}
	err = target_read_each(t, ranges, n, ok);
	if (err)
		return err;
	n = 0;
	for (size_t i = 0; i < count; i++) {
		for (size_t k = 0; k < 2 * in[i].count; k++, n++) {
			in[i].torn |= !ok[n];
			label_trail_add(in[i].trail, ranges[n].address, ranges[n].buffer,
					ranges[n].size);
		}
	}
	*ret = take_ptr(text);
	return NULL;
}

static int compare_interned(const void *a, const void *b, void *arg)
{
	const struct label_sets *sets = arg;
	const struct label *x = a, *y = b;

	return strcmp(intern_get(&sets->strings, x->key), intern_get(&sets->strings, y->key));
}

/* A growing map shows a label twice. */
static size_t drop_duplicates(struct label *labels, size_t count)
{
	size_t n = 0;

	for (size_t i = 0; i < count; i++)
		if (!n || labels[i].key != labels[n - 1].key)
			labels[n++] = labels[i];
	return n;
}

static bool is_full(const struct label_sets *sets)
{
	return sets->count >= LABELS_MAX_SETS || sets->bytes >= LABELS_MAX_BYTES;
}

static struct error *append_set(struct label_sets *sets, const struct label *labels, size_t count)
{
	struct label *copy = malloc(count * sizeof(*copy));

	if (!copy || !array_reserve(&sets->sets, &sets->capacity, sets->count + 1)) {
		free(copy);
		return &error_no_memory;
	}
	memcpy(copy, labels, count * sizeof(*copy));
	sets->sets[sets->count] = (struct label_set){copy, count, sets->count};
	sets->count++;
	sets->bytes += count * sizeof(*copy);
	return NULL;
}

static uint64_t hash_labels(const struct label *labels, size_t count)
{
	return hash_bytes(labels, count * sizeof(*labels)) >> 1;
}

static bool is_set(const struct label_sets *sets, uint64_t id, const struct label *labels,
		   size_t count)
{
	const struct label_set *set = &sets->sets[id];

	return set->count == count && !memcmp(set->labels, labels, count * sizeof(*labels));
}

/* The index slot for the set's number; it holds 0 if the set is new. NULL: there is no memory. */
static uint64_t *place_of_set(struct label_sets *sets, const struct label *labels, size_t count)
{
	for (uint64_t hash = hash_labels(labels, count);; hash++) {
		uint64_t *place = map_at(&sets->index, hash);

		if (!place || !*place || is_set(sets, *place, labels, count))
			return place;
	}
}

static struct error *intern_set(struct label_sets *sets, const struct label *labels, size_t count,
				uint32_t *ret)
{
	struct error *err;
	uint64_t *place;

	if (!sets->count) {
		if (!array_reserve(&sets->sets, &sets->capacity, 1))
			return &error_no_memory;
		sets->count = 1;
	}
	place = place_of_set(sets, labels, count);
	if (!place)
		return &error_no_memory;
	if (!*place) {
		err = append_set(sets, labels, count);
		if (err)
			return err;
		*place = sets->count - 1;
	}
	*ret = *place;
	return NULL;
}

/* A string's number. Past the limits of sets, only that of a string that is known already. */
static uint32_t string_id(struct label_sets *sets, const char *bytes, size_t length)
{
	size_t before = sets->strings.count;
	uint32_t id;

	if (is_full(sets))
		return intern_find(&sets->strings, bytes, length);
	id = intern_bytes(&sets->strings, bytes, length);
	sets->bytes += sets->strings.count > before ? length : 0;
	return id;
}

/* Past the limit: the set's number if it is known, else none. */
static uint32_t known_set(const struct label_sets *sets, const struct label *labels, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (labels[i].key == INTERN_FAILED || labels[i].value == INTERN_FAILED)
			return LABELS_NONE;
	for (uint64_t hash = hash_labels(labels, count);; hash++) {
		const uint64_t *place = map_find(&sets->index, hash);

		if (!place || !*place)
			return LABELS_NONE;
		if (is_set(sets, *place, labels, count))
			return *place;
	}
}

/* The set's number; *text is the bytes of its strings and moves behind them. */
static struct error *take_set(struct label_sets *sets, const struct incoming *in, const char **text,
			      uint32_t *ret)
{
	_cleanup_free_ struct label *labels = calloc(in->count + 1, sizeof(*labels));
	size_t n;

	if (!labels)
		return &error_no_memory;
	for (size_t k = 0; k < in->count; k++) {
		const struct go_label *l = &in->labels[k];
		size_t key = l->key.length, value = l->value.length;

		labels[k].key = string_id(sets, *text, key);
		labels[k].value = string_id(sets, *text + key, value);
		if (!is_full(sets) &&
		    (labels[k].key == INTERN_FAILED || labels[k].value == INTERN_FAILED))
			return &error_no_memory;
		*text += key + value;
	}
	qsort_r(labels, in->count, sizeof(*labels), compare_interned, sets);
	n = drop_duplicates(labels, in->count);
	if (!is_full(sets))
		return intern_set(sets, labels, n, ret);
	*ret = known_set(sets, labels, n);
	sets->dropped += *ret == LABELS_NONE;
	return NULL;
}

static struct error *read_sets(struct label_sets *sets, struct target *t, const uint64_t *pointers,
			       size_t count, struct incoming *in, uint32_t *ret)
{
	_cleanup_free_ char *text = NULL;
	const char *at;
	struct error *err;

	err = sets->maps ? read_maps(t, pointers, count, in) : read_slices(t, pointers, count, in);
	if (!err)
		err = read_strings(t, in, count, &text);
	at = text;
	for (size_t i = 0; !err && i < count; i++) {
		bool torn = in[i].torn;

		ret[i] = LABELS_NONE;
		if (in[i].count)
			err = take_set(sets, &in[i], &at, &ret[i]);
		if (torn)
			ret[i] = LABELS_TORN;
	}
	return err;
}

/* Caches the memory of a set, if it is valid and has a number. */
static void keep(struct label_sets *sets, const uint64_t *pointers, size_t count,
		 const struct incoming *in, const uint32_t *ids)
{
	for (size_t i = 0; i < count; i++)
		if (!in[i].torn && ids[i] != LABELS_NONE)
			label_cache_keep(&sets->cache, pointers[i], in[i].trail, ids[i]);
}

static struct error *read_anew(struct label_sets *sets, struct target *t, const uint64_t *pointers,
			       size_t count, uint32_t *ret)
{
	_cleanup_free_ struct incoming *in = calloc(count, sizeof(*in));
	_cleanup_free_ struct label_trail *trails = malloc(count * sizeof(*trails));
	struct error *err;

	if (!in || !trails)
		return &error_no_memory;
	for (size_t i = 0; i < count; i++) {
		trails[i].pieces = trails[i].bytes = trails[i].too_long = 0;
		in[i].trail = &trails[i];
	}
	err = read_sets(sets, t, pointers, count, in, ret);
	if (!err)
		keep(sets, pointers, count, in, ret);
	for (size_t i = 0; i < count; i++)
		free(in[i].labels);
	return err;
}

/* Reads the sets that the cache does not know. */
static struct error *read_others(struct label_sets *sets, struct target *t,
				 const uint64_t *pointers, size_t count, const bool *known,
				 uint32_t *ret)
{
	_cleanup_free_ uint64_t *others = calloc(count, sizeof(*others));
	_cleanup_free_ uint32_t *ids = calloc(count, sizeof(*ids));
	struct error *err = NULL;
	size_t n = 0;

	if (!others || !ids)
		return &error_no_memory;
	for (size_t i = 0; i < count; i++)
		if (!known[i] && pointers[i])
			others[n++] = pointers[i];
	if (n)
		err = read_anew(sets, t, others, n, ids);
	n = 0;
	for (size_t i = 0; !err && i < count; i++)
		if (!known[i])
			ret[i] = pointers[i] ? ids[n++] : LABELS_NONE;
	return err;
}

struct error *label_sets_read(struct label_sets *sets, struct target *t, const uint64_t *pointers,
			      size_t count, uint32_t *ret)
{
	_cleanup_free_ bool *known = calloc(count + 1, sizeof(*known));
	struct error *err;

	if (!known)
		return &error_no_memory;
	err = label_cache_check(&sets->cache, t, pointers, count, ret, known);
	return err || !count ? err : read_others(sets, t, pointers, count, known, ret);
}

/* Larger pieces are not compared; no copy is larger. */
#define MAX_PIECE 512

static bool is_still_there(struct target *t, const struct target_range *pieces, size_t count)
{
	uint8_t now[MAX_PIECE];

	for (size_t i = 0; i < count; i++)
		if (pieces[i].size > sizeof(now) ||
		    error_dropped(target_read(t, pieces[i].address, now, pieces[i].size)) ||
		    memcmp(now, pieces[i].buffer, pieces[i].size) != 0)
			return false;
	return true;
}

struct error *label_sets_read_copied(struct label_sets *sets, struct target *t, uint64_t pointer,
				     const struct target_range *pieces, size_t count, uint32_t *ret)
{
	struct target *copy;
	struct error *err;

	if (!pointer) {
		*ret = LABELS_NONE;
		return NULL;
	}
	err = target_open_memory(pieces, count, &copy);
	if (err)
		return err;
	err = read_anew(sets, copy, &pointer, 1, ret);
	target_close(copy);
	if (err || *ret != LABELS_TORN)
		return err;
	err = label_sets_read(sets, t, &pointer, 1, ret);
	if (!err && !is_still_there(t, pieces, count))
		*ret = LABELS_TORN;
	return err;
}

static bool has_key(const struct label *labels, size_t count, uint32_t key)
{
	for (size_t i = 0; i < count; i++)
		if (labels[i].key == key)
			return true;
	return false;
}

struct error *label_sets_add(struct label_sets *sets, uint32_t id, const struct label_bytes *added,
			     size_t count, uint32_t *ret)
{
	struct label_set set = label_sets_get(sets, id);
	_cleanup_free_ struct label *labels = calloc(set.count + count + 1, sizeof(*labels));
	size_t n = set.count, before = sets->count;
	struct error *err;
	uint32_t known;

	*ret = id;
	if (!labels)
		return &error_no_memory;
	if (n)
		memcpy(labels, set.labels, n * sizeof(*labels));
	for (size_t i = 0; i < count; i++) {
		struct label l = {string_id(sets, added[i].key, strlen(added[i].key)),
				  string_id(sets, added[i].value, added[i].length)};

		if (l.key == INTERN_FAILED || l.value == INTERN_FAILED)
			return is_full(sets) ? NULL : &error_no_memory;
		if (!has_key(labels, n, l.key))
			labels[n++] = l;
	}
	qsort_r(labels, n, sizeof(*labels), compare_interned, sets);
	if (is_full(sets)) {
		known = known_set(sets, labels, n);
		*ret = known == LABELS_NONE ? id : known;
		return NULL;
	}
	err = intern_set(sets, labels, n, ret);
	if (!err && sets->count > before && *ret == sets->count - 1)
		sets->sets[*ret].own = label_sets_own(sets, id);
	return err;
}

uint32_t label_sets_own(const struct label_sets *sets, uint32_t id)
{
	return id < sets->count ? sets->sets[id].own : id;
}

struct label_set label_sets_get(const struct label_sets *sets, uint32_t id)
{
	return id < sets->count ? sets->sets[id] : (struct label_set){0};
}

void label_sets_release(struct label_sets *sets)
{
	for (size_t i = 0; i < sets->count; i++)
		free(sets->sets[i].labels);
	free(sets->sets);
	intern_release(&sets->strings);
	map_release(&sets->index);
	label_cache_release(&sets->cache);
	*sets = (struct label_sets){0};
}
