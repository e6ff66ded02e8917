/*
 * pprof's format (profile.proto). Messages are packed one at a time, each as a Profile with nothing
 * else. Repeated fields of such pieces are concatenated, so the whole never has to be in memory.
 *
 * Each sample has the labels `state` and `wait`; a label of the goroutine's own that has one of
 * these names is written as `label.state` or `label.wait`, so that -tagfocus=state=... selects
 * states. A stack's word is one Location at the address that is looked up, inlined calls are its
 * Lines. A word whose innermost frame is a wrapper that only some stacks hide is two Locations. A
 * profile without time (a dump) has `samples` as its default.
 *
 * The runtime's own profiles have the types, values and labels that Go writes (runtime/pprof), and
 * a sample without a visible frame has no location.
 *
 * Go's CPU profile has the values samples and cpu, and no labels but the goroutine's own.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "profile.pb-c.h"
#include "profile/gzip.h"
#include "profile/profile.h"
#include "profile/profile_symbols.h"
#include "profile/raw_profile.h"

/* A function, known by its name and file, as ids in symbols->strings. */
struct pprof_function {
	uint32_t name;
	uint32_t file;
};

struct pprof {
	const struct profile *profile;
	const struct profile_symbols *symbols;
	struct gzip gz;
	uint8_t *buffer;
	size_t buffer_capacity;
	struct intern strings;
	struct map locations; /* index of the word << 1, plus 1 when its innermost frame is shown ->
			       * id */
	uint64_t location_count;
	struct map functions; /* name << 32 | file -> id */
	uint64_t *ids;        /* of one sample's locations */
	size_t ids_capacity;
	Pprof__Label *labels; /* of one sample */
	Pprof__Label **label_pointers;
	size_t label_capacity;
	size_t label_pointer_capacity;
	bool *mapping_has_functions;
	bool whole;  /* includes what only formats other than pprof show */
	bool cpu;    /* as Go's CPU profile */
	bool failed; /* no memory */
};

static void pprof_release(struct pprof *pp)
{
	free(pp->buffer);
	free(pp->ids);
	free(pp->labels);
	free(pp->label_pointers);
	free(pp->mapping_has_functions);
	intern_release(&pp->strings);
	map_release(&pp->locations);
	map_release(&pp->functions);
}

static void emit(struct pprof *pp, const Pprof__Profile *piece)
{
	size_t size = pprof__profile__get_packed_size(piece);

	if (!array_reserve(&pp->buffer, &pp->buffer_capacity, size)) {
		pp->failed = true;
		return;
	}
	gzip_write(&pp->gz, pp->buffer, pprof__profile__pack(piece, pp->buffer));
}

static int64_t string_bytes(struct pprof *pp, const char *bytes, size_t length)
{
	uint32_t id = utf8_intern(&pp->strings, bytes, length);

	if (id != INTERN_FAILED)
		return id;
	pp->failed = true;
	return 0;
}

static int64_t string_id(struct pprof *pp, const char *s)
{
	return s ? string_bytes(pp, s, strlen(s)) : 0;
}

static int64_t interned_id(struct pprof *pp, uint32_t id)
{
	const struct intern *in = &pp->profile->strings;

	return id < in->count ? string_bytes(pp, in->strings[id].data, in->strings[id].length) : 0;
}

static uint64_t function_id(struct pprof *pp, const struct source_line *line)
{
	uint64_t *place = map_at(&pp->functions, (uint64_t)line->function << 32 | line->file);
	Pprof__Function function = PPROF__FUNCTION__INIT, *functions = &function;
	Pprof__Profile piece = PPROF__PROFILE__INIT;

	if (!place) {
		pp->failed = true;
		return 0;
	}
	if (*place)
		return *place;
	*place = pp->functions.count;
	function.id = *place;
	function.name = string_id(pp, intern_get(&pp->symbols->strings, line->function));
	function.system_name = function.name;
	function.filename = string_id(pp, intern_get(&pp->symbols->strings, line->file));
	function.start_line = line->start_line;
	piece.n_function = 1;
	piece.function = &functions;
	emit(pp, &piece);
	return function.id;
}

static void emit_location(struct pprof *pp, uint64_t id, const struct symbol_word *word,
			  uint64_t shown)
{
	Pprof__Location location = PPROF__LOCATION__INIT, *locations = &location;
	Pprof__Profile piece = PPROF__PROFILE__INIT;
	Pprof__Line lines[64], *pointers[64];

	location.id = id;
	location.line = pointers;
	if (!stack_pc_is_pseudo(word->pc)) {
		struct profile_word at = profile_word_of(pp->profile, word->pc);

		location.address = at.address;
		location.mapping_id = at.mapping;
		if (at.mapping)
			pp->mapping_has_functions[at.mapping - 1] |= word->location.count > 0;
	}
	for (size_t i = 0; i < word->location.count; i++) {
		const struct profile_symbols *s = pp->symbols;
		const struct source_line *line = &s->source_lines[s->lines[word->first + i]];
		Pprof__Line *out = &lines[location.n_line];

		if (!(shown >> i & 1))
			continue;
		pprof__line__init(out);
		out->function_id = function_id(pp, line);
		out->line = line->line;
		pointers[location.n_line++] = out;
	}
	piece.n_location = 1;
	piece.location = &locations;
	emit(pp, &piece);
}

/* A callee may hide the innermost frame of a word. So a word may have two locations. */
static uint64_t location_id(struct pprof *pp, const struct symbol_word *word, uint64_t shown)
{
	uint64_t *place = map_at(&pp->locations, (word - pp->symbols->words) << 1 | (shown & 1));

	if (!place) {
		pp->failed = true;
		return 0;
	}
	if (!*place) {
		*place = ++pp->location_count;
		emit_location(pp, *place, word, shown);
	}
	return *place;
}

static size_t sample_locations(struct pprof *pp, const struct profile_sample *sample)
{
	const struct go_frame *callee = NULL;
	size_t n = 0;

	if (!array_reserve(&pp->ids, &pp->ids_capacity, sample->depth + 1)) {
		pp->failed = true;
		return 0;
	}
	for (uint32_t i = 0; i < sample->depth; i++) {
		const struct symbol_word *word = symbols_word(pp->symbols, sample->pcs[i]);
		uint64_t shown = symbols_shown(pp->symbols, word, &callee);

		if (shown)
			pp->ids[n++] = location_id(pp, word, shown);
	}
	if (!n && !pp->profile->type_count)
		pp->ids[n++] = location_id(pp, symbols_lone(pp->symbols, sample), 1);
	return n;
}

static void add_label(struct pprof *pp, size_t *n, int64_t key, int64_t value)
{
	if (!value)
		return;
	pprof__label__init(&pp->labels[*n]);
	pp->labels[*n].key = key;
	pp->labels[*n].str = value;
	pp->label_pointers[*n] = &pp->labels[*n];
	++*n;
}

static int64_t own_label_key(struct pprof *pp, uint32_t key)
{
	const char *name = intern_get(&pp->profile->strings, key);

	if (pp->profile->type_count || pp->cpu)
		return interned_id(pp, key);
	if (!strcmp(name, "state"))
		return string_id(pp, "label.state");
	if (!strcmp(name, "wait"))
		return string_id(pp, "label.wait");
	return interned_id(pp, key);
}

static void add_number(struct pprof *pp, size_t *n, const char *key, int64_t number)
{
	if (!number)
		return;
	pprof__label__init(&pp->labels[*n]);
	pp->labels[*n].key = string_id(pp, key);
	pp->labels[*n].num = number;
	pp->label_pointers[*n] = &pp->labels[*n];
	++*n;
}

/* Readers take a label without text for the number 0, so only raw files have such labels. */
static void add_own_label(struct pprof *pp, size_t *n, const struct profile_label *label)
{
	if (!label->value && pp->symbols->with_functions)
		return;
	pprof__label__init(&pp->labels[*n]);
	pp->labels[*n].key = own_label_key(pp, label->key);
	pp->labels[*n].str = interned_id(pp, label->value);
	pp->label_pointers[*n] = &pp->labels[*n];
	++*n;
}

/* Go writes it even where it is 0. */
static void add_size(struct pprof *pp, size_t *n, const struct profile_values *values)
{
	if (!values->has_size)
		return;
	pprof__label__init(&pp->labels[*n]);
	pp->labels[*n].key = string_id(pp, "bytes");
	pp->labels[*n].num = values->object_size;
	pp->label_pointers[*n] = &pp->labels[*n];
	++*n;
}

static size_t sample_labels(struct pprof *pp, const struct profile_sample *sample)
{
	size_t room = sample->label_count + 4, n = 0;

	if (!array_reserve(&pp->labels, &pp->label_capacity, room) ||
	    !array_reserve(&pp->label_pointers, &pp->label_pointer_capacity, room)) {
		pp->failed = true;
		return 0;
	}
	if (!pp->profile->type_count && !pp->cpu) {
		add_label(pp, &n, string_id(pp, "state"),
			  string_id(pp, profile_state_name(sample->state)));
		add_label(pp, &n, string_id(pp, "wait"), interned_id(pp, sample->wait));
	}
	for (uint32_t i = 0; i < sample->label_count; i++)
		add_own_label(pp, &n, &sample->labels[i]);
	if (pp->profile->type_count) {
		add_size(pp, &n, &pp->profile->values[sample - pp->profile->samples]);
	} else if (pp->whole) {
		add_number(pp, &n, RAW_IDLE_COUNT, sample->idle_count);
		add_number(pp, &n, RAW_IDLE_NS, sample->idle_ns);
	}
	return n;
}

/* How many samples of one period each the time is; at least one. */
static int64_t cpu_samples(const struct profile *p, const struct profile_sample *sample)
{
	uint64_t period = p->period_ns ? p->period_ns : 1;
	uint64_t samples = (sample->cpu_ns + period / 2) / period;

	return samples ? samples : 1;
}

static void emit_sample(struct pprof *pp, const struct profile_sample *sample)
{
	int64_t values[] = {sample->count, sample->wall_ns, sample->cpu_ns};
	Pprof__Sample message = PPROF__SAMPLE__INIT, *samples = &message;
	Pprof__Profile piece = PPROF__PROFILE__INIT;

	message.n_location_id = sample_locations(pp, sample);
	message.location_id = pp->ids;
	message.n_value = ARRAY_SIZE(values);
	message.value = values;
	if (pp->profile->type_count) {
		message.n_value = pp->profile->type_count;
		message.value = pp->profile->values[sample - pp->profile->samples].values;
	}
	if (pp->cpu) {
		message.n_value = 2;
		values[0] = cpu_samples(pp->profile, sample);
		values[1] = sample->cpu_ns;
	}
	message.n_label = sample_labels(pp, sample);
	message.label = pp->label_pointers;
	piece.n_sample = 1;
	piece.sample = &samples;
	emit(pp, &piece);
}

static void emit_mappings(struct pprof *pp)
{
	for (size_t i = 0; i < pp->profile->mapping_count; i++) {
		const struct profile_mapping *m = &pp->profile->mappings[i];
		Pprof__Mapping message = PPROF__MAPPING__INIT, *mappings = &message;
		Pprof__Profile piece = PPROF__PROFILE__INIT;
		bool has_functions = pp->mapping_has_functions[i];

		message.id = i + 1;
		message.memory_start = m->start;
		message.memory_limit = m->end;
		message.file_offset = m->offset;
		message.filename = string_id(pp, m->file);
		message.build_id = string_id(pp, m->build_id);
		message.has_functions = has_functions;
		message.has_filenames = has_functions;
		message.has_line_numbers = has_functions;
		message.has_inline_frames = has_functions;
		piece.n_mapping = 1;
		piece.mapping = &mappings;
		emit(pp, &piece);
	}
}

static void emit_comment(struct pprof *pp, const char *text)
{
	int64_t comment = string_id(pp, text);
	Pprof__Profile piece = PPROF__PROFILE__INIT;

	piece.n_comment = 1;
	piece.comment = &comment;
	emit(pp, &piece);
}

static void emit_comments(struct pprof *pp)
{
	_cleanup_strbuf_ struct strbuf command = STRBUF_INIT;

	for (size_t i = 0; i < pp->profile->comment_count; i++)
		emit_comment(pp, pp->profile->comments[i]);
	if (pp->symbols->with_functions || !pp->profile->command)
		return;
	strbuf_addf(&command, RAW_COMMAND "%s", pp->profile->command);
	pp->failed |= command.failed;
	emit_comment(pp, command.data);
}

static Pprof__ValueType type_of(struct pprof *pp, const struct profile_value_type *t)
{
	Pprof__ValueType type = PPROF__VALUE_TYPE__INIT;

	type.type = interned_id(pp, t->type);
	type.unit = interned_id(pp, t->unit);
	return type;
}

static void emit_header_of_values(struct pprof *pp)
{
	const struct profile *p = pp->profile;
	Pprof__ValueType values[PROFILE_MOST_VALUES], *types[PROFILE_MOST_VALUES];
	Pprof__ValueType period_type = type_of(pp, &p->period_type);
	Pprof__Profile piece = PPROF__PROFILE__INIT;

	for (size_t i = 0; i < p->type_count; i++) {
		values[i] = type_of(pp, &p->types[i]);
		types[i] = &values[i];
	}
	piece.n_sample_type = p->type_count;
	piece.sample_type = types;
	piece.default_sample_type = interned_id(pp, p->preferred);
	piece.period_type = &period_type;
	piece.period = p->period_ns;
	piece.time_nanos = p->time_ns;
	piece.duration_nanos = p->duration_ns;
	emit(pp, &piece);
}

static void emit_header(struct pprof *pp)
{
	Pprof__ValueType values[] = {
		PPROF__VALUE_TYPE__INIT,
		PPROF__VALUE_TYPE__INIT,
		PPROF__VALUE_TYPE__INIT,
	};
	Pprof__ValueType *types[] = {&values[0], &values[1], &values[2]};
	Pprof__Profile piece = PPROF__PROFILE__INIT;
	uint64_t count, wall;

	profile_totals(pp->profile, &count, &wall);
	values[0].type = string_id(pp, "samples");
	values[0].unit = string_id(pp, "count");
	values[1].type = string_id(pp, "wall");
	values[1].unit = string_id(pp, "nanoseconds");
	values[2].type = string_id(pp, "cpu");
	values[2].unit = values[1].unit;
	piece.n_sample_type = ARRAY_SIZE(types);
	piece.sample_type = types;
	piece.default_sample_type = wall ? values[1].type : values[0].type;
	piece.period_type = types[1];
	piece.period = pp->profile->period_ns;
	piece.time_nanos = pp->profile->time_ns;
	piece.duration_nanos = pp->profile->duration_ns;
	emit(pp, &piece);
}

static void emit_header_of_cpu(struct pprof *pp)
{
	Pprof__ValueType values[] = {PPROF__VALUE_TYPE__INIT, PPROF__VALUE_TYPE__INIT};
	Pprof__ValueType *types[] = {&values[0], &values[1]};
	Pprof__Profile piece = PPROF__PROFILE__INIT;

	values[0].type = string_id(pp, "samples");
	values[0].unit = string_id(pp, "count");
	values[1].type = string_id(pp, "cpu");
	values[1].unit = string_id(pp, "nanoseconds");
	piece.n_sample_type = ARRAY_SIZE(types);
	piece.sample_type = types;
	piece.period_type = types[1];
	piece.period = pp->profile->period_ns;
	piece.time_nanos = pp->profile->time_ns;
	piece.duration_nanos = pp->profile->duration_ns;
	emit(pp, &piece);
}

static void emit_strings(struct pprof *pp)
{
	for (size_t i = 0; i < pp->strings.count; i++) {
		char *strings[] = {pp->strings.strings[i].data};
		Pprof__Profile piece = PPROF__PROFILE__INIT;

		piece.n_string_table = 1;
		piece.string_table = strings;
		emit(pp, &piece);
	}
}

/* In pieces: protobuf-c packs a piece in memory. */
#define STEPS_AT_ONCE 4096

static void emit_steps(struct pprof *pp, const struct timeline_step *steps, size_t count)
{
	uint64_t numbers[3 * STEPS_AT_ONCE];
	Pprof__Profile piece = PPROF__PROFILE__INIT;

	for (size_t i = 0; i < count; i++) {
		numbers[3 * i] = steps[i].row;
		numbers[3 * i + 1] = steps[i].column;
		numbers[3 * i + 2] = steps[i].ns;
	}
	piece.n_timeline_step = 3 * count;
	piece.timeline_step = numbers;
	emit(pp, &piece);
}

static struct error *must_check emit_timeline(struct pprof *pp)
{
	_cleanup_free_ struct timeline_step *steps = NULL;
	Pprof__Profile piece = PPROF__PROFILE__INIT;
	size_t count;
	struct error *err = timeline_steps(&pp->profile->timeline, &steps, &count);

	if (err)
		return err;
	piece.timeline_width = pp->profile->timeline.width_ns;
	emit(pp, &piece);
	for (size_t i = 0; i < count; i += STEPS_AT_ONCE)
		emit_steps(pp, steps + i, count - i < STEPS_AT_ONCE ? count - i : STEPS_AT_ONCE);
	return NULL;
}

static struct error *must_check write_all(const struct profile *p,
					  const struct profile_symbols *symbols, bool whole,
					  bool cpu, FILE *out)
{
	_cleanup_(pprof_release) struct pprof pp = {.profile = p,
						    .symbols = symbols,
						    .whole = whole,
						    .cpu = cpu};
	struct error *err;

	pp.mapping_has_functions = calloc(p->mapping_count + 1, sizeof(bool));
	if (!pp.mapping_has_functions)
		return &error_no_memory;
	err = gzip_open(&pp.gz, out);
	if (err)
		return err;
	if (cpu)
		emit_header_of_cpu(&pp);
	else if (p->type_count)
		emit_header_of_values(&pp);
	else
		emit_header(&pp);
	for (size_t i = 0; i < p->count; i++)
		if (!cpu || p->samples[i].cpu_ns)
			emit_sample(&pp, &p->samples[i]);
	emit_mappings(&pp);
	emit_comments(&pp);
	if (whole && symbols->with_functions)
		err = emit_timeline(&pp);
	emit_strings(&pp);
	gzip_close(&pp.gz);
	if (err)
		return err;
	return pp.failed ? &error_no_memory : NULL;
}

static struct error *pprof_write(const struct profile *p, const struct profile_symbols *symbols,
				 FILE *out)
{
	return write_all(p, symbols, !symbols->with_functions, false, out);
}

static struct error *pprof_write_whole(const struct profile *p,
				       const struct profile_symbols *symbols, FILE *out)
{
	return write_all(p, symbols, true, false, out);
}

static struct error *pprof_write_cpu(const struct profile *p, const struct profile_symbols *symbols,
				     FILE *out)
{
	if (p->type_count)
		return error_format(ERROR_USAGE, "only a recording has CPU time");
	return write_all(p, symbols, false, true, out);
}

const struct profile_format profile_format_pprof_whole = {
	.name = "pprof",
	.binary = true,
	.write = pprof_write_whole,
};

const struct profile_format profile_format_pprof_cpu = {
	.name = "pprof",
	.binary = true,
	.write = pprof_write_cpu,
};

const struct profile_format profile_format_pprof = {
	.name = "pprof",
	.binary = true,
	.write = pprof_write,
};
