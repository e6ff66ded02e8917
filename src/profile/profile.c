#include "profile/profile.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"

static const char *const state_names[PROFILE_STATES] = {
	[PROFILE_RUNNING] = "running",
	[PROFILE_RUNNABLE] = "runnable",
	[PROFILE_SYSCALL] = "syscall",
	[PROFILE_WAITING] = "waiting",
};

const char *profile_state_name(enum profile_state state)
{
	return state_names[state];
}

struct profile *profile_create(void)
{
	return calloc(1, sizeof(struct profile));
}

void profile_destroy(struct profile *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->count; i++)
		free((void *)p->samples[i].pcs);
	for (size_t i = 0; i < p->comment_count; i++)
		free(p->comments[i]);
	for (size_t i = 0; i < p->mapping_count; i++) {
		free(p->mappings[i].file);
		free(p->mappings[i].build_id);
	}
	free(p->samples);
	free(p->values);
	free(p->comments);
	free(p->mappings);
	free(p->words);
	free(p->command);
	free(p->go_version);
	map_release(&p->index);
	timeline_release(&p->timeline);
	source_fragments_release(&p->sources);
	goroutine_rows_release(&p->goroutines);
	request_paths_release(&p->requests);
	intern_release(&p->strings);
	free(p);
}

static uint64_t sample_hash(const struct profile_sample *s)
{
	uint64_t h = hash_u64(s->state ^ (uint64_t)s->wait << 8 ^ (uint64_t)s->program << 40);

	if (s->depth)
		h ^= hash_bytes(s->pcs, s->depth * sizeof(*s->pcs));
	if (s->label_count)
		h = hash_u64(h) ^ hash_bytes(s->labels, s->label_count * sizeof(*s->labels));
	return hash_u64(h);
}

static bool same_bytes(const void *a, const void *b, size_t size)
{
	return !size || !memcmp(a, b, size);
}

static bool same_kind(const struct profile_sample *a, const struct profile_sample *b)
{
	return a->state == b->state && a->wait == b->wait && a->program == b->program &&
	       a->depth == b->depth && a->label_count == b->label_count &&
	       same_bytes(a->pcs, b->pcs, a->depth * sizeof(*a->pcs)) &&
	       same_bytes(a->labels, b->labels, a->label_count * sizeof(*a->labels));
}

/* A copy of the sample's key, in one block that begins with the words. */
static bool append_kind(struct profile *p, const struct profile_sample *s)
{
	size_t pcs_size = s->depth * sizeof(*s->pcs);
	size_t labels_size = s->label_count * sizeof(*s->labels);
	struct profile_sample *copy;
	char *block;

	if (!array_reserve(&p->samples, &p->capacity, p->count + 1))
		return false;
	block = malloc(pcs_size + labels_size + 1);
	if (!block)
		return false;
	if (pcs_size)
		memcpy(block, s->pcs, pcs_size);
	if (labels_size)
		memcpy(block + pcs_size, s->labels, labels_size);
	copy = &p->samples[p->count++];
	*copy = (struct profile_sample){
		.pcs = (const uint64_t *)block,
		.depth = s->depth,
		.wait = s->wait,
		.state = s->state,
		.labels = (const struct profile_label *)(block + pcs_size),
		.label_count = s->label_count,
		.program = s->program,
	};
	return true;
}

/* The sample with this key, created if it is new; NULL when there is no memory. */
static struct profile_sample *sample_of_kind(struct profile *p, const struct profile_sample *s)
{
	uint64_t key = sample_hash(s), *place;

	for (;; key = hash_u64(key + 1)) {
		if (key == MAP_NO_KEY)
			continue;
		place = map_at(&p->index, key);
		if (!place)
			return NULL;
		if (!*place)
			break;
		if (same_kind(&p->samples[*place - 1], s))
			return &p->samples[*place - 1];
	}
	if (!append_kind(p, s))
		return NULL;
	*place = p->count;
	return &p->samples[p->count - 1];
}

bool profile_find(const struct profile *p, const struct profile_sample *sample, uint32_t *ret)
{
	uint64_t key = sample_hash(sample);

	for (;; key = hash_u64(key + 1)) {
		const uint64_t *place = key == MAP_NO_KEY ? NULL : map_find(&p->index, key);

		if (key == MAP_NO_KEY)
			continue;
		if (!place || !*place)
			return false;
		*ret = *place - 1;
		if (same_kind(&p->samples[*ret], sample))
			return true;
	}
}

static void add_values(struct profile_sample *sum, const struct profile_sample *sample)
{
	sum->count += sample->count;
	sum->wall_ns += sample->wall_ns;
	sum->cpu_ns += sample->cpu_ns;
	sum->idle_count += sample->idle_count;
	sum->idle_ns += sample->idle_ns;
	if (sample->longest_ns > sum->longest_ns) {
		sum->longest_ns = sample->longest_ns;
		sum->longest_goroutine = sample->longest_goroutine;
	}
}

struct error *profile_add_at(struct profile *p, const struct profile_sample *sample, uint32_t *ret)
{
	struct profile_sample *sum = sample_of_kind(p, sample);

	if (!sum)
		return &error_no_memory;
	add_values(sum, sample);
	*ret = sum - p->samples;
	return NULL;
}

struct error *profile_add(struct profile *p, const struct profile_sample *sample)
{
	uint32_t place;

	return profile_add_at(p, sample, &place);
}

struct error *profile_append(struct profile *p, const struct profile_sample *sample)
{
	if (!append_kind(p, sample))
		return &error_no_memory;
	add_values(&p->samples[p->count - 1], sample);
	return NULL;
}

struct error *profile_append_values(struct profile *p, const struct profile_sample *sample,
				    const struct profile_values *values)
{
	struct error *err;

	if (!array_reserve(&p->values, &p->value_capacity, p->count + 1))
		return &error_no_memory;
	err = profile_append(p, sample);
	if (!err)
		p->values[p->count - 1] = *values;
	return err;
}

struct error *profile_add_type(struct profile *p, const char *type, const char *unit)
{
	struct profile_value_type *t = &p->types[p->type_count];

	if (p->type_count == PROFILE_MOST_VALUES)
		return error_format(ERROR_CORRUPT, "a profile has more than %d types of values",
				    PROFILE_MOST_VALUES);
	t->type = intern_string(&p->strings, type);
	t->unit = intern_string(&p->strings, unit);
	if (t->type == INTERN_FAILED || t->unit == INTERN_FAILED)
		return &error_no_memory;
	p->type_count++;
	return NULL;
}

struct error *profile_add_comment(struct profile *p, const char *format, ...)
{
	char *comment = NULL;
	va_list ap;
	int n;

	va_start(ap, format);
	n = vasprintf(&comment, format, ap);
	va_end(ap);
	if (n < 0)
		return &error_no_memory;
	if (!array_reserve(&p->comments, &p->comment_capacity, p->comment_count + 1)) {
		free(comment);
		return &error_no_memory;
	}
	p->comments[p->comment_count++] = comment;
	return NULL;
}

static struct error *must_check insert_mapping(struct profile *p, size_t at,
					       const struct profile_mapping *mapping)
{
	_cleanup_free_ char *file = strdup(mapping->file ? mapping->file : "");
	_cleanup_free_ char *build_id = strdup(mapping->build_id ? mapping->build_id : "");
	struct profile_mapping *m;

	if (!file || !build_id ||
	    !array_reserve(&p->mappings, &p->mapping_capacity, p->mapping_count + 1))
		return &error_no_memory;
	m = &p->mappings[at];
	memmove(m + 1, m, (p->mapping_count - at) * sizeof(*m));
	*m = *mapping;
	m->file = take_ptr(file);
	m->build_id = take_ptr(build_id);
	p->mapping_count++;
	return NULL;
}

struct error *profile_append_mapping(struct profile *p, const struct profile_mapping *mapping)
{
	return insert_mapping(p, p->mapping_count, mapping);
}

struct error *profile_add_mapping(struct profile *p, const struct profile_mapping *mapping)
{
	size_t at = p->mapping_count;

	while (at && p->mappings[at - 1].start > mapping->start)
		at--;
	return insert_mapping(p, at, mapping);
}

struct profile_word profile_word_of(const struct profile *p, uint64_t pc)
{
	uint64_t number = pc - STACK_PC_LAST_PSEUDO - 1;
	struct profile_word word = {.address = stack_pc_lookup(pc)};

	if (p->words)
		return number < p->word_count ? p->words[number] : (struct profile_word){0};
	for (size_t i = 0; !word.mapping && i < p->mapping_count; i++)
		if (word.address >= p->mappings[i].start && word.address < p->mappings[i].end)
			word.mapping = i + 1;
	return word;
}

static bool has_label(const struct profile_sample *s, uint32_t key, uint32_t value)
{
	for (uint32_t i = 0; i < s->label_count; i++)
		if (s->labels[i].key == key && s->labels[i].value == value)
			return true;
	return false;
}

/* Sets the new index of each sample with the label, and TIMELINE_NO_ROW for the others. */
static void keep_samples(struct profile *p, uint32_t key, uint32_t value, uint32_t *places)
{
	size_t kept = 0;

	for (size_t i = 0; i < p->count; i++) {
		bool keeps = has_label(&p->samples[i], key, value);

		if (places)
			places[i] = keeps ? kept : TIMELINE_NO_ROW;
		if (keeps && p->values)
			p->values[kept] = p->values[i];
		if (keeps)
			p->samples[kept++] = p->samples[i];
		else
			free((void *)p->samples[i].pcs);
	}
	p->count = kept;
	map_release(&p->index);
}

void profile_keep_label(struct profile *p, const char *key, const char *value)
{
	/* INTERN_FAILED means that no sample has the label. */
	uint32_t k = intern_find(&p->strings, key, strlen(key));
	uint32_t v = intern_find(&p->strings, value, strlen(value));
	_cleanup_free_ uint32_t *places = calloc(p->count + 1, sizeof(*places));
	_cleanup_timeline_ struct timeline old = p->timeline;
	size_t count = p->count;

	p->timeline = (struct timeline){0};
	keep_samples(p, k, v, places);
	if (p->count < count) {
		goroutine_rows_release(&p->goroutines);
		request_paths_release(&p->requests);
	}
	/* Without memory the timeline is dropped. */
	if (places && old.width_ns)
		error_destroy(timeline_add_all(&p->timeline, &old, places, count));
}

void profile_totals(const struct profile *p, uint64_t *ret_count, uint64_t *ret_wall_ns)
{
	uint64_t count = 0, wall = 0;

	for (size_t i = 0; i < p->count; i++) {
		count += p->samples[i].count;
		wall += p->samples[i].wall_ns;
	}
	*ret_count = count;
	*ret_wall_ns = wall;
}
