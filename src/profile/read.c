#include "profile/read.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/array.h"
#include "base/cancel.h"
#include "base/cleanup.h"
#include "profile.pb-c.h"
#include "profile/profile_symbols.h"
#include "profile/raw_profile.h"

/*
 * A file of some KB can claim to hold a hundred million samples. So the size of the file on disk
 * limits its uncompressed size, the memory of its messages, and the bytes copied and compared for
 * it. Each limit is several times the need of the largest and best compressed profiles.
 */
#define MAX_SIZE (1ull << 30)
#define INFLATED_BASE (128ull << 20)
#define INFLATED_PER_BYTE 128
#define BUDGET_BASE (256ull << 20)
#define BUDGET_PER_BYTE 256
/* Costs, in the budget's unit of bytes. */
#define COST_ALLOCATION 32
#define COST_FRAME 32
#define COST_MAPPING 4096

struct budget {
	size_t left;
	const atomic_int *cancel;
};

static bool spend(struct budget *b, size_t bytes)
{
	bool enough = bytes <= b->left;

	b->left = enough ? b->left - bytes : 0;
	return enough;
}

/* A location: its word, and its frames. */
struct place {
	uint64_t word;
	size_t first;
	size_t count;
};

struct reading {
	const Pprof__Profile *message;
	struct budget work;
	struct profile *profile;
	struct map words;     /* stack word -> its index in places + 1 */
	struct place *places; /* in the order of locations */
	size_t place_count;
	size_t place_capacity;
	struct go_frame *frames;
	size_t frame_count;
	size_t frame_capacity;
	struct map functions; /* id -> number in message->function + 1 */
	struct map locations; /* id -> number in places + 1 */
	uint64_t *pcs;
	size_t pcs_capacity;
	struct profile_label *labels;
	size_t label_capacity;
	bool raw;
	size_t count_at, wall_at, cpu_at; /* indices of the values of a sample; SIZE_MAX: none */
	size_t kept[PROFILE_MOST_VALUES]; /* of the values, for each of the profile's types */
	struct profile_values values;     /* of the sample that is read */
};

static void reading_release(struct reading *r)
{
	profile_destroy(r->profile);
	map_release(&r->words);
	map_release(&r->functions);
	map_release(&r->locations);
	free(r->places);
	free(r->frames);
	free(r->pcs);
	free(r->labels);
}

static struct error *corrupt(const char *what)
{
	return error_format(ERROR_CORRUPT, "it is not a pprof profile: %s", what);
}

static struct error *too_large(void)
{
	return corrupt("it needs too much memory for a file of its size");
}

static struct error *inflate_all(const void *bytes, size_t size, uint8_t **ret, size_t *ret_size)
{
	_cleanup_free_ uint8_t *out = NULL;
	size_t capacity = 0, most = INFLATED_BASE + INFLATED_PER_BYTE * size;
	z_stream z = {.next_in = (Bytef *)bytes, .avail_in = size};
	int status = inflateInit2(&z, 16 + MAX_WBITS);

	while (status == Z_OK) {
		if (z.total_out >= most || z.total_out >= MAX_SIZE)
			break;
		if (z.total_out == capacity && !array_reserve(&out, &capacity, capacity + 1))
			break;
		z.next_out = out + z.total_out;
		z.avail_out = capacity - z.total_out;
		status = inflate(&z, Z_NO_FLUSH);
	}
	inflateEnd(&z);
	if (status == Z_OK)
		return too_large();
	if (status != Z_STREAM_END)
		return error_format(ERROR_CORRUPT, "its compressed data is truncated or corrupt");
	*ret_size = z.total_out;
	*ret = take_ptr(out);
	return NULL;
}

static const char *text(const struct reading *r, int64_t number)
{
	return number > 0 && (size_t)number < r->message->n_string_table
		       ? r->message->string_table[number]
		       : "";
}

static bool is_bytes(const struct reading *r, size_t i)
{
	return !strcmp(text(r, r->message->sample_type[i]->unit), "bytes");
}

static struct error *keep_type(struct reading *r, size_t i)
{
	const Pprof__ValueType *t = r->message->sample_type[i];

	r->kept[r->profile->type_count] = i;
	return profile_add_type(r->profile, text(r, t->type), text(r, t->unit));
}

static struct error *keep_preferred(struct reading *r)
{
	const Pprof__ValueType *period = r->message->period_type;
	struct profile *p = r->profile;

	p->preferred =
		intern_string(&p->strings, text(r, r->message->sample_type[r->wall_at]->type));
	p->period_type.type = intern_string(&p->strings, period ? text(r, period->type) : "");
	p->period_type.unit = intern_string(&p->strings, period ? text(r, period->unit) : "");
	return p->preferred == INTERN_FAILED || p->period_type.type == INTERN_FAILED ||
			       p->period_type.unit == INTERN_FAILED
		       ? &error_no_memory
		       : NULL;
}

/*
 * A profile of memory: its bytes are shown, of the type that the file prefers, else of the last
 * one, as pprof does, with the count before it. All of its values are kept, if there are not many.
 */
static struct error *choose_bytes(struct reading *r)
{
	size_t n = r->message->n_sample_type;
	struct error *err = NULL;

	for (size_t i = 0; i < n; i++)
		if (is_bytes(r, i) &&
		    (r->wall_at == SIZE_MAX ||
		     r->message->sample_type[r->wall_at]->type != r->message->default_sample_type))
			r->wall_at = i;
	for (size_t i = 0; i < n; i++)
		if (!is_bytes(r, i) && (r->count_at == SIZE_MAX || i < r->wall_at))
			r->count_at = i;
	r->profile->unit = PROFILE_BYTES;
	for (size_t i = 0; i < n && !err; i++)
		if (n <= PROFILE_MOST_VALUES || i == r->wall_at || i == r->count_at)
			err = keep_type(r, i);
	return err ? err : keep_preferred(r);
}

/* Chooses the values of a sample that are used. */
static struct error *choose_values(struct reading *r)
{
	bool has_bytes = false;

	r->count_at = r->wall_at = r->cpu_at = SIZE_MAX;
	for (size_t i = 0; i < r->message->n_sample_type; i++) {
		const char *type = text(r, r->message->sample_type[i]->type);
		bool is_time = !strcmp(text(r, r->message->sample_type[i]->unit), "nanoseconds");

		if (!strcmp(type, "cpu") && is_time)
			r->cpu_at = i;
		else if (is_time && (r->wall_at == SIZE_MAX || !strcmp(type, "wall")))
			r->wall_at = i;
		else if (r->count_at == SIZE_MAX)
			r->count_at = i;
		has_bytes |= is_bytes(r, i);
	}
	if (r->wall_at == SIZE_MAX)
		r->wall_at = r->cpu_at;
	if (!has_bytes || r->wall_at != SIZE_MAX)
		return NULL;
	r->count_at = SIZE_MAX;
	return choose_bytes(r);
}

static struct error *index_functions(struct reading *r)
{
	for (size_t i = 0; i < r->message->n_function; i++) {
		uint64_t id = r->message->function[i]->id;
		uint64_t *slot = id == MAP_NO_KEY ? NULL : map_at(&r->functions, id);

		if (!slot)
			return id == MAP_NO_KEY ? corrupt("a function without an id")
						: &error_no_memory;
		*slot = i + 1;
	}
	return NULL;
}

static struct go_frame frame_of(const struct reading *r, const Pprof__Line *line, bool inlined)
{
	const uint64_t *place = map_find(&r->functions, line->function_id);
	const Pprof__Function *f = place ? r->message->function[*place - 1] : NULL;

	return (struct go_frame){
		.function = f ? text(r, f->name) : "?",
		.file = f ? text(r, f->filename) : "?",
		.line = line->line > 0 && line->line < INT32_MAX ? line->line : 0,
		.start_line =
			f && f->start_line > 0 && f->start_line < INT32_MAX ? f->start_line : 0,
		.inlined = inlined,
	};
}

/* "[running]" and its like, as gospect writes them: locations without an address. */
static uint64_t pseudo_word(const struct reading *r, const Pprof__Location *l)
{
	static const struct pclntab none;
	const char *name = l->n_line == 1 ? frame_of(r, l->line[0], false).function : "";
	struct go_frame pseudo;

	for (uint64_t i = 1; i <= STACK_PC_LAST_PSEUDO && !l->address && *name == '['; i++)
		if (pclntab_frames(&none, i, &pseudo, 1) && !strcmp(name, pseudo.function))
			return i;
	return 0;
}

static bool is_free(const struct reading *r, uint64_t word)
{
	return word != MAP_NO_KEY && !map_find(&r->words, word);
}

/*
 * The word for a location is its address. If another location has that address (a return address
 * and an instruction may be looked up at the same place), it is the return address that is looked
 * up there. Otherwise it is a new number.
 */
static uint64_t word_of(struct reading *r, const Pprof__Location *l, size_t i)
{
	uint64_t word = pseudo_word(r, l), numbers = STACK_PC_LAST_PSEUDO + 1;

	if (word)
		return word;
	if (l->address <= STACK_PC_LAST_PSEUDO)
		return numbers + i;
	if (is_free(r, l->address | STACK_PC_EXACT))
		return l->address | STACK_PC_EXACT;
	if (l->address > numbers + r->message->n_location && is_free(r, l->address + 1))
		return l->address + 1;
	return numbers + i;
}

static struct error *add_location(struct reading *r, size_t i)
{
	const Pprof__Location *l = r->message->location[i];
	uint64_t word = word_of(r, l, i), *place, *slot;

	if (l->id == MAP_NO_KEY)
		return corrupt("a location without an id");
	if (!array_reserve(&r->places, &r->place_capacity, r->place_count + 1) ||
	    !array_reserve(&r->frames, &r->frame_capacity, r->frame_count + l->n_line))
		return &error_no_memory;
	place = map_at(&r->words, word);
	if (!place)
		return &error_no_memory;
	r->places[r->place_count] = (struct place){word, r->frame_count, l->n_line};
	*place = ++r->place_count;
	slot = map_at(&r->locations, l->id);
	if (!slot)
		return &error_no_memory;
	*slot = r->place_count;
	for (size_t k = 0; k < l->n_line; k++) {
		struct go_frame frame = frame_of(r, l->line[k], k + 1 < l->n_line);

		if (!spend(&r->work, strlen(frame.function) + strlen(frame.file)))
			return too_large();
		r->frames[r->frame_count++] = frame;
	}
	return NULL;
}

static int64_t value_of(const Pprof__Sample *s, size_t at)
{
	return at < s->n_value && s->value[at] > 0 ? s->value[at] : 0;
}

/* Converts a label as gospect wrote it to one in the profile's strings. */
static bool own_label(struct reading *r, const Pprof__Label *l, struct profile_label *ret)
{
	const char *key = text(r, l->key);

	if (!strcmp(key, "label.state") || !strcmp(key, "label.wait"))
		key += strlen("label.");
	ret->key = intern_string(&r->profile->strings, key);
	ret->value = intern_string(&r->profile->strings, text(r, l->str));
	return ret->key != INTERN_FAILED && ret->value != INTERN_FAILED;
}

static enum profile_state state_named(const char *name)
{
	for (int i = 0; i < PROFILE_STATES; i++)
		if (!strcmp(name, profile_state_name(i)))
			return i;
	return PROFILE_RUNNING;
}

static struct error *read_labels(struct reading *r, const Pprof__Sample *s,
				 struct profile_sample *ret)
{
	if (!array_reserve(&r->labels, &r->label_capacity, s->n_label))
		return &error_no_memory;
	for (size_t i = 0; i < s->n_label; i++) {
		const char *key = text(r, s->label[i]->key);

		if (!spend(&r->work, strlen(key) + strlen(text(r, s->label[i]->str))))
			return too_large();
		if (!s->label[i]->str && !strcmp(key, "bytes")) {
			r->values.object_size = s->label[i]->num;
			r->values.has_size = true;
		}
		if (!s->label[i]->str && !strcmp(key, RAW_IDLE_COUNT))
			ret->idle_count = s->label[i]->num;
		else if (!s->label[i]->str && !strcmp(key, RAW_IDLE_NS))
			ret->idle_ns = s->label[i]->num;
		if (!s->label[i]->str && (s->label[i]->num || !r->raw))
			continue;
		if (!strcmp(key, "state"))
			ret->state = state_named(text(r, s->label[i]->str));
		else if (!strcmp(key, "wait"))
			ret->wait = intern_string(&r->profile->strings, text(r, s->label[i]->str));
		else if (!own_label(r, s->label[i], &r->labels[ret->label_count++]))
			return &error_no_memory;
	}
	ret->labels = r->labels;
	return ret->wait == INTERN_FAILED ? &error_no_memory : NULL;
}

static struct error *read_sample(struct reading *r, const Pprof__Sample *s)
{
	struct profile_sample sample = {.state = PROFILE_RUNNING};
	struct error *err;

	if (!array_reserve(&r->pcs, &r->pcs_capacity, s->n_location_id + 1))
		return &error_no_memory;
	for (size_t i = 0; i < s->n_location_id; i++) {
		const uint64_t *number = map_find(&r->locations, s->location_id[i]);

		if (!number)
			return corrupt("a sample refers to a missing location");
		if (!spend(&r->work, COST_FRAME * (r->places[*number - 1].count + 1)))
			return too_large();
		r->pcs[sample.depth++] = r->places[*number - 1].word;
	}
	sample.pcs = r->pcs;
	sample.count = value_of(s, r->count_at);
	sample.wall_ns = value_of(s, r->wall_at);
	sample.cpu_ns = value_of(s, r->cpu_at);
	r->values = (struct profile_values){0};
	for (size_t i = 0; i < r->profile->type_count; i++)
		r->values.values[i] = r->kept[i] < s->n_value ? s->value[r->kept[i]] : 0;
	err = read_labels(r, s, &sample);
	if (err)
		return err;
	return r->profile->type_count ? profile_append_values(r->profile, &sample, &r->values)
				      : profile_append(r->profile, &sample);
}

static int by_start(const void *a, const void *b)
{
	const Pprof__Mapping *x = *(Pprof__Mapping *const *)a, *y = *(Pprof__Mapping *const *)b;

	if (x->memory_start != y->memory_start)
		return x->memory_start < y->memory_start ? -1 : 1;
	return (x->id > y->id) - (x->id < y->id);
}

static struct error *read_mappings(struct reading *r)
{
	struct error *err = NULL;

	if (r->message->n_mapping)
		qsort(r->message->mapping, r->message->n_mapping, sizeof(*r->message->mapping),
		      by_start);
	for (size_t i = 0; i < r->message->n_mapping && !err; i++) {
		const Pprof__Mapping *m = r->message->mapping[i];
		struct profile_mapping mapping = {
			.start = m->memory_start,
			.end = m->memory_limit,
			.offset = m->file_offset,
			.file = (char *)text(r, m->filename),
			.build_id = (char *)text(r, m->build_id),
		};

		if (!spend(&r->work,
			   COST_MAPPING + strlen(mapping.file) + strlen(mapping.build_id)))
			return too_large();
		err = profile_add_mapping(r->profile, &mapping);
	}
	return err;
}

/* In a raw profile only pseudo words have functions, and these have no address. A profile of
 * another program may have functions without any address. */
static bool is_raw(const Pprof__Profile *message)
{
	bool has_addresses = false;

	for (size_t i = 0; i < message->n_location; i++) {
		if (message->location[i]->n_line && message->location[i]->address)
			return false;
		has_addresses |= message->location[i]->address != 0;
	}
	return has_addresses;
}

static struct error *read_timeline(struct reading *r)
{
	const uint64_t *numbers = r->message->timeline_step;
	size_t count = r->message->n_timeline_step / 3;
	_cleanup_free_ struct timeline_step *steps = calloc(count + 1, sizeof(*steps));

	if (!spend(&r->work, count * sizeof(*steps)))
		return too_large();
	if (!steps)
		return &error_no_memory;
	for (size_t i = 0; i < count; i++, numbers += 3)
		steps[i] = (struct timeline_step){
			numbers[0] < UINT32_MAX ? numbers[0] : UINT32_MAX,
			numbers[1] < UINT32_MAX ? numbers[1] : UINT32_MAX,
			numbers[2],
		};
	return timeline_add_steps(&r->profile->timeline, r->message->timeline_width, steps, count,
				  r->profile->count);
}

static struct error *read_comment(struct reading *r, const char *comment)
{
	size_t length = strlen(RAW_COMMAND);

	if (!spend(&r->work, COST_ALLOCATION + strlen(comment)))
		return too_large();
	if (!r->raw || strncmp(comment, RAW_COMMAND, length) || r->profile->command)
		return profile_add_comment(r->profile, "%s", comment);
	r->profile->command = strdup(comment + length);
	return r->profile->command ? NULL : &error_no_memory;
}

static struct error *read_all(struct reading *r)
{
	const Pprof__Profile *m = r->message;
	struct error *err;

	err = choose_values(r);
	if (err)
		return err;
	if (r->count_at == SIZE_MAX && r->wall_at == SIZE_MAX)
		return corrupt("its samples have no values");
	err = index_functions(r);
	for (size_t i = 0; i < m->n_location && !err; i++)
		err = add_location(r, i);
	for (size_t i = 0; i < m->n_sample && !err; i++) {
		err = cancel_check(r->work.cancel);
		if (!err)
			err = read_sample(r, m->sample[i]);
	}
	if (!err)
		err = read_mappings(r);
	if (!err && m->timeline_width)
		err = read_timeline(r);
	for (size_t i = 0; i < m->n_comment && !err; i++)
		err = read_comment(r, text(r, m->comment[i]));
	r->profile->time_ns = m->time_nanos;
	r->profile->duration_ns = m->duration_nanos;
	r->profile->period_ns = m->period;
	return err;
}

static size_t frames_of(const void *functions, uint64_t word, struct go_frame *ret, size_t max)
{
	const struct reading *r = functions;
	const uint64_t *number = map_find(&r->words, word);
	const struct place *place = number ? &r->places[*number - 1] : NULL;
	size_t count = place ? place->count : 0;

	if (count > max)
		count = max;
	if (count)
		memcpy(ret, r->frames + place->first, count * sizeof(*ret));
	return count;
}

static struct error *read_message(const Pprof__Profile *message, const struct budget *budget,
				  struct profile_file *ret)
{
	_cleanup_(reading_release) struct reading r = {.message = message,
						       .raw = is_raw(message),
						       .work = *budget};
	struct symbol_source source = {frames_of, &r, budget->cancel};
	struct profile_symbols *symbols;
	struct error *err;

	r.profile = profile_create();
	err = r.profile ? read_all(&r) : &error_no_memory;
	if (!err)
		err = symbols_create(r.profile, &source, &symbols);
	if (err)
		return err;
	ret->symbols = symbols;
	ret->raw = r.raw;
	symbols->with_functions = !ret->raw;
	ret->profile = take_ptr(r.profile);
	return NULL;
}

static void *allocate(void *arg, size_t size)
{
	struct budget *budget = arg;

	if (error_dropped(cancel_check(budget->cancel)))
		return NULL;
	return spend(budget, size + COST_ALLOCATION) ? malloc(size) : NULL;
}

static void release(void *budget, void *memory)
{
	free(memory);
}

static struct error *unpack(const void *bytes, size_t size, const struct budget *budget,
			    Pprof__Profile **ret)
{
	struct budget memory = *budget;
	ProtobufCAllocator allocator = {allocate, release, &memory};
	struct error *err;

	*ret = pprof__profile__unpack(&allocator, size, bytes);
	if (*ret)
		return NULL;
	err = cancel_check(budget->cancel);
	if (err)
		return err;
	return memory.left ? corrupt("it is truncated or corrupt") : too_large();
}

struct error *profile_read(const void *bytes, size_t size, const atomic_int *cancel,
			   struct profile_file *ret)
{
	static const uint8_t gzip[] = {0x1f, 0x8b};
	_cleanup_free_ uint8_t *inflated = NULL;
	const struct budget budget = {BUDGET_BASE + BUDGET_PER_BYTE * size, cancel};
	Pprof__Profile *message;
	struct error *err;

	if (size > MAX_SIZE)
		return corrupt("it is too large");
	if (size >= sizeof(gzip) && !memcmp(bytes, gzip, sizeof(gzip))) {
		err = inflate_all(bytes, size, &inflated, &size);
		if (err)
			return err;
		bytes = inflated;
	}
	err = unpack(bytes, size, &budget, &message);
	if (err)
		return err;
	err = read_message(message, &budget, ret);
	pprof__profile__free_unpacked(message, NULL);
	return err;
}

void profile_file_release(struct profile_file *file)
{
	profile_symbols_destroy(file->symbols);
	profile_destroy(file->profile);
	*file = (struct profile_file){0};
}
