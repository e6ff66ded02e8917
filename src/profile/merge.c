#include "profile/merge.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/strbuf.h"
#include "profile/profile_symbols.h"

#define FIRST_WORD (STACK_PC_LAST_PSEUDO + 1)

struct merge {
	struct profile *to;
	const struct profile *from;
	const struct profile_symbols *symbols; /* of `from` */
	const struct merge_program *program;
	uint32_t frame;       /* frame of the program's name + 1 */
	size_t first_mapping; /* the first of its mappings, words and samples in `to` */
	size_t first_word;
	size_t first_sample;
	struct map words;    /* word of `from` -> its number in to->words + 1 */
	uint64_t *originals; /* words of `from`, by number without first_word */
	size_t original_count;
	size_t original_capacity;
	uint64_t *pcs; /* of one sample */
	size_t pcs_capacity;
	struct profile_label *labels; /* of one sample */
	size_t label_capacity;
};

static void merge_release(struct merge *m)
{
	map_release(&m->words);
	free(m->originals);
	free(m->pcs);
	free(m->labels);
}

static bool add_word(struct merge *m, uint64_t pc)
{
	struct profile *to = m->to;
	struct profile_word word = profile_word_of(m->from, pc);

	if (!array_reserve(&to->words, &to->word_capacity, to->word_count + 1) ||
	    !array_reserve(&m->originals, &m->original_capacity, m->original_count + 1))
		return false;
	if (word.mapping)
		word.mapping += m->first_mapping;
	m->originals[m->original_count++] = pc;
	to->words[to->word_count++] = word;
	return true;
}

static bool translate_word(struct merge *m, uint64_t pc, uint64_t *ret)
{
	uint64_t *number = stack_pc_is_pseudo(pc) ? NULL : map_at(&m->words, pc);

	*ret = pc;
	if (stack_pc_is_pseudo(pc))
		return true;
	if (!number || (!*number && !add_word(m, pc)))
		return false;
	if (!*number)
		*number = m->to->word_count;
	*ret = FIRST_WORD + *number - 1;
	return true;
}

static bool is_of_program(const struct merge *m, const char *key)
{
	for (size_t i = 0; i < m->program->label_count; i++)
		if (!strcmp(m->program->labels[i].key, key))
			return true;
	return false;
}

static uint32_t translate_key(struct merge *m, const char *key)
{
	_cleanup_strbuf_ struct strbuf other = STRBUF_INIT;

	if (!is_of_program(m, key))
		return intern_string(&m->to->strings, key);
	strbuf_addf(&other, "label.%s", key);
	return other.failed ? INTERN_FAILED : intern_string(&m->to->strings, other.data);
}

static int by_key(const void *a, const void *b, void *strings)
{
	const struct profile_label *x = a, *y = b;

	return strcmp(intern_get(strings, x->key), intern_get(strings, y->key));
}

static bool translate_labels(struct merge *m, const struct profile_sample *sample)
{
	size_t own = sample->label_count, count = own + m->program->label_count;

	if (!array_reserve(&m->labels, &m->label_capacity, count + 1))
		return false;
	for (size_t i = 0; i < count; i++) {
		const struct merge_label *given = i < own ? NULL : &m->program->labels[i - own];
		struct intern *from = (struct intern *)&m->from->strings;
		const char *value =
			given ? given->value : intern_get(from, sample->labels[i].value);

		m->labels[i].key =
			given ? intern_string(&m->to->strings, given->key)
			      : translate_key(m, intern_get(from, sample->labels[i].key));
		m->labels[i].value = intern_string(&m->to->strings, value);
		if (m->labels[i].key == INTERN_FAILED || m->labels[i].value == INTERN_FAILED)
			return false;
	}
	qsort_r(m->labels, count, sizeof(*m->labels), by_key, &m->to->strings);
	return true;
}

static struct error *must_check add_sample(struct merge *m, const struct profile_sample *sample)
{
	struct profile_sample copy = *sample;

	if (!array_reserve(&m->pcs, &m->pcs_capacity, sample->depth + 1) ||
	    !translate_labels(m, sample))
		return &error_no_memory;
	for (uint32_t i = 0; i < sample->depth; i++)
		if (!translate_word(m, sample->pcs[i], &m->pcs[i]))
			return &error_no_memory;
	copy.pcs = m->pcs;
	copy.labels = m->labels;
	copy.label_count = sample->label_count + m->program->label_count;
	copy.program = m->frame;
	copy.wait = sample->wait ? intern_string(&m->to->strings,
						 intern_get(&m->from->strings, sample->wait))
				 : 0;
	if (copy.wait == INTERN_FAILED)
		return &error_no_memory;
	return profile_append(m->to, &copy);
}

static struct error *must_check add_mappings(struct merge *m)
{
	struct error *err = NULL;

	m->first_mapping = m->to->mapping_count;
	for (size_t i = 0; !err && i < m->from->mapping_count; i++)
		err = profile_append_mapping(m->to, &m->from->mappings[i]);
	return err;
}

static struct error *must_check add_comments(struct merge *m)
{
	struct error *err = NULL;

	for (size_t i = 0; !err && i < m->from->comment_count; i++)
		err = profile_add_comment(m->to, "%s%s%s", m->program->name ? m->program->name : "",
					  m->program->name ? ": " : "", m->from->comments[i]);
	return err;
}

static bool overlap(const struct profile *a, const struct profile *b)
{
	return a->time_ns <= b->time_ns + b->duration_ns &&
	       b->time_ns <= a->time_ns + a->duration_ns;
}

static struct timeline take_timeline(struct timeline *t)
{
	struct timeline ret = *t;

	*t = (struct timeline){0};
	return ret;
}

/* All recordings have a time axis in common, or there is none. */
static struct error *must_check add_timeline(struct merge *m)
{
	struct profile *p = m->to;
	const struct profile *from = m->from;
	_cleanup_timeline_ struct timeline before = p->timeline;
	bool is_first = !m->first_sample;
	struct error *err = NULL;

	p->timeline = (struct timeline){0};
	if (!from->timeline.width_ns || (!is_first && (!before.width_ns || !overlap(p, from))))
		return NULL;
	if (!is_first && p->time_ns > from->time_ns)
		err = timeline_add_later(&p->timeline, &before, 0, p->time_ns - from->time_ns);
	else
		p->timeline = take_timeline(&before);
	if (err)
		return err;
	return timeline_add_later(&p->timeline, &from->timeline, m->first_sample,
				  !is_first && from->time_ns > p->time_ns
					  ? from->time_ns - p->time_ns
					  : 0);
}

/* The earliest begin, and the longest recording. */
static void add_times(struct profile *p, const struct profile *from)
{
	if (!p->time_ns || from->time_ns < p->time_ns)
		p->time_ns = from->time_ns;
	if (from->duration_ns > p->duration_ns)
		p->duration_ns = from->duration_ns;
	p->period_ns = from->period_ns;
}

/* Lines of a file that the profile has lines of already may be those of another version. */
static bool has_lines(const struct source_fragments *sources, const struct source_fragment *of)
{
	for (size_t i = 0; i < sources->count; i++) {
		const struct source_fragment *f = &sources->items[i];

		if (!strcmp(f->file, of->file) && f->first < of->first + of->count &&
		    of->first < f->first + f->count)
			return true;
	}
	return false;
}

static struct error *must_check add_sources(struct merge *m)
{
	for (size_t i = 0; i < m->from->sources.count; i++) {
		const struct source_fragment *f = &m->from->sources.items[i];
		char *text;

		if (has_lines(&m->to->sources, f))
			continue;
		text = malloc(f->size + 1);
		if (!text)
			return &error_no_memory;
		memcpy(text, f->text, f->size);
		if (!source_fragments_add(&m->to->sources, f->file, f->first, f->count, text,
					  f->size))
			return &error_no_memory;
	}
	return NULL;
}

static size_t frames_of(const void *merge, uint64_t pc, struct go_frame *ret, size_t max)
{
	const struct merge *m = merge;
	uint64_t number = pc - FIRST_WORD - m->first_word;
	const struct symbol_word *word =
		number < m->original_count ? symbols_word(m->symbols, m->originals[number]) : NULL;
	size_t count = word ? word->location.count : 0;

	/* A word without a function has the text of its address. */
	if (word && !count)
		count = 1;
	if (count > max)
		count = max;
	if (count)
		memcpy(ret, m->symbols->frames + word->first, count * sizeof(*ret));
	return count;
}

struct error *merge_begin(const struct profile *p, struct profile_symbols **ret)
{
	static const struct merge nothing;
	const struct symbol_source source = {frames_of, &nothing};

	return symbols_create(p, &source, ret);
}

struct error *merge_add(struct profile *p, struct profile_symbols *symbols,
			const struct merge_program *program, const struct profile *from,
			const struct profile_symbols *from_symbols)
{
	_cleanup_(merge_release) struct merge m = {.to = p,
						   .from = from,
						   .symbols = from_symbols,
						   .program = program,
						   .first_word = p->word_count,
						   .first_sample = p->count};
	const struct symbol_source source = {frames_of, &m};
	size_t frame = 0;
	struct error *err =
		program->name ? symbols_add_frame(symbols, program->name, &frame) : NULL;

	m.frame = program->name ? frame + 1 : 0;
	if (!err)
		err = add_mappings(&m);
	for (size_t i = 0; !err && i < from->count; i++)
		err = add_sample(&m, &from->samples[i]);
	if (!err)
		err = symbols_extend(symbols, p, m.first_sample, &source);
	if (!err)
		err = add_comments(&m);
	if (!err)
		err = add_timeline(&m);
	if (!err)
		err = add_sources(&m);
	if (!err)
		add_times(p, from);
	return err;
}
