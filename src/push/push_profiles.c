#include "push/push_profiles.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "lib/error_api.h"

/* A pprof message of a segment may be as large as this. */
#define MOST_BYTES (64u << 20)
/* windowBits of zlib: the largest window, and a gzip head. */
#define GZIP_WINDOW (15 + 16)

/* ---- from the library ---- */

static int collect(void *arg, const void *bytes, size_t size)
{
	struct strbuf *sb = arg;

	strbuf_add(sb, bytes, size);
	return sb->failed ? ENOMEM : 0;
}

static struct error *must_check inflate_all(const struct strbuf *from, struct strbuf *ret)
{
	z_stream z = {.next_in = (uint8_t *)from->data, .avail_in = from->length};
	int state = inflateInit2(&z, GZIP_WINDOW);

	while (state == Z_OK) {
		size_t room = 64u << 10;
		char *to = ret->length < MOST_BYTES ? strbuf_reserve(ret, room) : NULL;

		if (!to)
			break;
		z.next_out = (uint8_t *)to;
		z.avail_out = room;
		state = inflate(&z, Z_NO_FLUSH);
		ret->length += room - z.avail_out;
	}
	inflateEnd(&z);
	return state == Z_STREAM_END ? NULL : &error_no_memory;
}

static struct error *must_check message_of(const struct gospect_profile *from, Pprof__Profile **ret)
{
	_cleanup_strbuf_ struct strbuf packed = STRBUF_INIT, bytes = STRBUF_INIT;
	struct error *err =
		error_in(gospect_profile_write(from, GOSPECT_PPROF,
					       gospect_sink_function(collect, &packed)));

	if (!err)
		err = inflate_all(&packed, &bytes);
	if (err)
		return err;
	*ret = pprof__profile__unpack(NULL, bytes.length, (const uint8_t *)bytes.data);
	return *ret ? NULL : &error_no_memory;
}

/* Without a value there is nothing to push. */
static void add_profile(struct push_segment *s, const char *name, size_t first, size_t count)
{
	const Pprof__Profile *of = s->messages[s->message_count - 1];
	const struct push_profile p = {name, of, first, count};

	for (size_t i = 0; i < of->n_sample; i++) {
		if (!push_profile_has(&p, of->sample[i]))
			continue;
		s->profiles[s->count++] = p;
		return;
	}
}

struct error *push_segment_add(struct push_segment *s, enum push_kind kind,
			       const struct gospect_profile *from)
{
	struct error *err = message_of(from, &s->messages[s->message_count]);

	if (err)
		return err;
	s->message_count++;
	if (kind == PUSH_WALL) {
		/* samples, wall, cpu */
		add_profile(s, "process_cpu", 2, 1);
		add_profile(s, "wall", 1, 1);
	} else {
		add_profile(s, kind == PUSH_MEMORY ? "memory" : "goroutine", 0,
			    s->messages[s->message_count - 1]->n_sample_type);
	}
	return NULL;
}

void push_segment_release(struct push_segment *s)
{
	for (size_t i = 0; i < s->message_count; i++)
		pprof__profile__free_unpacked(s->messages[i], NULL);
	s->message_count = s->count = 0;
}

bool push_profile_has(const struct push_profile *p, const Pprof__Sample *sample)
{
	for (size_t i = p->first; i < p->first + p->count && i < sample->n_value; i++)
		if (sample->value[i])
			return true;
	return false;
}

/* ---- a part of a message ---- */

/* Which objects of a message the part needs. */
struct used {
	bool *locations, *functions, *strings; /* by id */
};

static bool used_create(const Pprof__Profile *p, struct used *ret)
{
	ret->locations = calloc(p->n_location + 1, sizeof(bool));
	ret->functions = calloc(p->n_function + 1, sizeof(bool));
	ret->strings = calloc(p->n_string_table + 1, sizeof(bool));
	return ret->locations && ret->functions && ret->strings;
}

static void used_release(struct used *u)
{
	free(u->locations);
	free(u->functions);
	free(u->strings);
}

/* Ids are 1, 2, 3 ... in our own files. */
static void use(bool *set, size_t count, uint64_t id)
{
	if (id <= count)
		set[id] = true;
}

static void use_string(const Pprof__Profile *p, struct used *u, int64_t id)
{
	if (id >= 0)
		use(u->strings, p->n_string_table, id);
}

static void use_type(const Pprof__Profile *p, struct used *u, const Pprof__ValueType *t)
{
	use_string(p, u, t->type);
	use_string(p, u, t->unit);
}

static void use_sample(const Pprof__Profile *p, struct used *u, const Pprof__Sample *s)
{
	for (size_t i = 0; i < s->n_location_id; i++)
		use(u->locations, p->n_location, s->location_id[i]);
	for (size_t i = 0; i < s->n_label; i++) {
		use_string(p, u, s->label[i]->key);
		use_string(p, u, s->label[i]->str);
		use_string(p, u, s->label[i]->num_unit);
	}
}

/* Keeps the used ones, in place. */
static void keep_code(Pprof__Profile *p, struct used *u)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n_location; i++) {
		Pprof__Location *l = p->location[i];

		if (l->id > p->n_location || !u->locations[l->id])
			continue;
		for (size_t j = 0; j < l->n_line; j++)
			use(u->functions, p->n_function, l->line[j]->function_id);
		p->location[n++] = l;
	}
	p->n_location = n;
	n = 0;
	for (size_t i = 0; i < p->n_function; i++) {
		Pprof__Function *f = p->function[i];

		if (f->id > p->n_function || !u->functions[f->id])
			continue;
		use_string(p, u, f->name);
		use_string(p, u, f->system_name);
		use_string(p, u, f->filename);
		p->function[n++] = f;
	}
	p->n_function = n;
}

/* The rest keep their places: strings that are not used become "". */
static void keep_strings(Pprof__Profile *p, struct used *u)
{
	for (size_t i = 0; i < p->n_mapping; i++) {
		use_string(p, u, p->mapping[i]->filename);
		use_string(p, u, p->mapping[i]->build_id);
	}
	for (size_t i = 0; i < p->n_comment; i++)
		use_string(p, u, p->comment[i]);
	for (size_t i = 0; i < p->n_sample_type; i++)
		use_type(p, u, p->sample_type[i]);
	if (p->period_type)
		use_type(p, u, p->period_type);
	use_string(p, u, p->default_sample_type);
	for (size_t i = 0; i < p->n_string_table; i++)
		if (!u->strings[i])
			p->string_table[i] = "";
}

/* Copies of the lists and of the samples, whose elements stay the message's. */
struct part {
	Pprof__Profile profile;
	Pprof__Sample *samples;
	Pprof__Sample **sample_list;
	Pprof__Location **locations;
	Pprof__Function **functions;
	char **strings;
};

static void part_release(struct part *part)
{
	free(part->samples);
	free(part->sample_list);
	free(part->locations);
	free(part->functions);
	free(part->strings);
}

static void *copy_of(const void *list, size_t count)
{
	void *copy = calloc(count + 1, sizeof(void *));

	return copy && count ? memcpy(copy, list, count * sizeof(void *)) : copy;
}

static struct error *must_check part_create(const struct push_profile *from, struct part *part)
{
	const Pprof__Profile *p = from->of;

	part->profile = *p;
	part->samples = calloc(p->n_sample + 1, sizeof(*part->samples));
	part->sample_list = calloc(p->n_sample + 1, sizeof(*part->sample_list));
	part->locations = copy_of(p->location, p->n_location);
	part->functions = copy_of(p->function, p->n_function);
	part->strings = copy_of(p->string_table, p->n_string_table);
	part->profile.sample = part->sample_list;
	part->profile.location = part->locations;
	part->profile.function = part->functions;
	part->profile.string_table = part->strings;
	return part->samples && part->sample_list && part->locations && part->functions &&
			       part->strings
		       ? NULL
		       : &error_no_memory;
}

static void select_types(const struct push_profile *from, Pprof__Profile *p)
{
	if (from->first + from->count > p->n_sample_type)
		return;
	p->sample_type += from->first;
	p->n_sample_type = from->count;
	if (from->count > 1)
		return;
	p->period_type = p->sample_type[0];
	p->default_sample_type = p->sample_type[0]->type;
}

static struct error *must_check select_part(const struct push_profile *from, struct part *part)
{
	_cleanup_(used_release) struct used used = {0};
	Pprof__Profile *p = &part->profile;
	size_t n = 0;

	if (!used_create(from->of, &used))
		return &error_no_memory;
	for (size_t i = 0; i < from->of->n_sample; i++) {
		Pprof__Sample *s = &part->samples[n];

		if (!push_profile_has(from, from->of->sample[i]))
			continue;
		*s = *from->of->sample[i];
		s->value += from->first;
		s->n_value = from->count;
		use_sample(from->of, &used, s);
		part->sample_list[n++] = s;
	}
	p->n_sample = n;
	select_types(from, p);
	keep_code(p, &used);
	keep_strings(p, &used);
	return NULL;
}

struct error *push_gzip(const void *bytes, size_t size, struct strbuf *ret)
{
	z_stream z = {.next_in = (uint8_t *)bytes, .avail_in = size};
	char *to;
	int state;

	if (deflateInit2(&z, Z_BEST_SPEED, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return &error_no_memory;
	z.avail_out = deflateBound(&z, size);
	to = strbuf_reserve(ret, z.avail_out);
	z.next_out = (uint8_t *)to;
	state = to ? deflate(&z, Z_FINISH) : Z_MEM_ERROR;
	ret->length += z.total_out;
	deflateEnd(&z);
	return state == Z_STREAM_END ? NULL : &error_no_memory;
}

struct error *push_profile_pack(const struct push_profile *from, struct strbuf *ret)
{
	_cleanup_(part_release) struct part part = {0};
	_cleanup_free_ uint8_t *bytes = NULL;
	struct error *err = part_create(from, &part);
	size_t size;

	if (!err)
		err = select_part(from, &part);
	if (err)
		return err;
	size = pprof__profile__get_packed_size(&part.profile);
	bytes = malloc(size + 1);
	if (!bytes)
		return &error_no_memory;
	return push_gzip(bytes, pprof__profile__pack(&part.profile, bytes), ret);
}
