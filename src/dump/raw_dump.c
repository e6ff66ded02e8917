#include "dump/raw_dump.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cancel.h"
#include "base/cleanup.h"
#include "base/printable.h"
#include "dump/traceback.h"

#define FIRST_LINE "gospect raw dump 1\n"
#define CREATED_BY "created by 0x"
/* A line with an address is shorter. */
#define MAX_ADDRESS_LINE 64
/* The most bytes of a line with a path. */
#define MAX_HEAD_LINE 8192

static const char *pseudo_name(uint64_t word)
{
	static const struct pclntab none;
	struct go_frame frame;

	return pclntab_frames(&none, word, &frame, 1) ? frame.function : "[unknown]";
}

void raw_write_head(const struct dump_raw *raw, FILE *out)
{
	fputs(FIRST_LINE, out);
	fprintf(out, "frames %s\n", raw->all ? "all" : "shown");
	for (size_t i = 0; i < raw->count; i++) {
		const struct module_range *m = &raw->mappings[i];

		printable_line(out, "mapping %lx-%lx %lx %s %s", m->start, m->end, m->offset,
			       *m->build_id ? m->build_id : "-", m->path);
	}
	fputc('\n', out);
}

void raw_add_stack(struct strbuf *sb, struct stack stack)
{
	for (size_t i = 0; i < stack.count; i++) {
		uint64_t word = stack.pcs[i];

		if (stack_pc_is_pseudo(word))
			strbuf_addf(sb, "\t%s\n", pseudo_name(word));
		else
			strbuf_addf(sb, "\t0x%" PRIx64 "%s\n", stack_pc_address(word),
				    word & STACK_PC_EXACT ? " exact" : "");
	}
}

/* The first goroutine has no creator. */
void raw_add_creator(struct strbuf *sb, const struct dump_goroutine *g)
{
	if (g->id != 1 && g->go_pc)
		strbuf_addf(sb, "0x%" PRIx64, stack_pc_address(g->go_pc));
}

bool dump_raw_is(const void *bytes, size_t size)
{
	return size >= strlen(FIRST_LINE) && !memcmp(bytes, FIRST_LINE, strlen(FIRST_LINE));
}

/* The lines of a text, without their ends. */
struct lines {
	const char *at;
	const char *end;
	size_t number;
	const char *line;
	size_t length;
};

static bool next_line(struct lines *l)
{
	const char *newline = l->at < l->end ? memchr(l->at, '\n', l->end - l->at) : NULL;

	if (!newline)
		return false;
	l->line = l->at;
	l->length = newline - l->at;
	l->at = newline + 1;
	l->number++;
	return true;
}

/* A copy as a string; false when it is too long or has a NUL. */
static bool copy_line(const struct lines *l, char *ret, size_t size)
{
	if (l->length >= size || memchr(l->line, '\0', l->length))
		return false;
	memcpy(ret, l->line, l->length);
	ret[l->length] = '\0';
	return true;
}

static struct error *must_check wrong_line(const struct lines *l)
{
	return error_format(ERROR_CORRUPT, "invalid line %zu in the raw dump", l->number);
}

static struct error *read_mapping(struct dump_raw *raw, const struct lines *l, const char *line)
{
	char build_id[ELF_BUILD_ID_SIZE];
	struct module_range m;
	uint32_t id, path;
	int at = 0;

	if (sscanf(line, "mapping %lx-%lx %lx %256s %n", &m.start, &m.end, &m.offset, build_id,
		   &at) != 4 ||
	    !at || m.start >= m.end)
		return wrong_line(l);
	id = intern_string(&raw->strings, strcmp(build_id, "-") ? build_id : "");
	path = intern_string(&raw->strings, line + at);
	if (id == INTERN_FAILED || path == INTERN_FAILED ||
	    !array_reserve(&raw->mappings, &raw->capacity, raw->count + 1))
		return &error_no_memory;
	m.build_id = intern_get(&raw->strings, id);
	m.path = intern_get(&raw->strings, path);
	raw->mappings[raw->count++] = m;
	return NULL;
}

_Static_assert(ELF_BUILD_ID_SIZE == 257, "the width in read_mapping()");

static struct error *read_head(struct dump_raw *raw, struct lines *l)
{
	char line[MAX_HEAD_LINE];
	struct error *err = NULL;

	while (!err && next_line(l) && l->length) {
		if (!copy_line(l, line, sizeof(line)))
			return wrong_line(l);
		if (!strcmp(line, "frames all"))
			raw->all = true;
		else if (!strncmp(line, "mapping ", 8))
			err = read_mapping(raw, l, line);
		else if (strcmp(line, "frames shown"))
			return wrong_line(l);
	}
	return err;
}

struct error *dump_raw_read(const void *bytes, size_t size, struct dump_raw *ret)
{
	struct lines l = {.at = bytes, .end = (const char *)bytes + size};
	struct error *err;

	if (!next_line(&l))
		return error_format(ERROR_CORRUPT, "the raw dump is empty");
	err = read_head(ret, &l);
	if (size && ((const char *)bytes)[size - 1] != '\n')
		err = err ? err : error_format(ERROR_CORRUPT, "the raw dump is truncated");
	ret->body = l.at;
	ret->size = l.end - l.at;
	return err;
}

void dump_raw_release(struct dump_raw *raw)
{
	free(raw->mappings);
	intern_release(&raw->strings);
	*raw = (struct dump_raw){0};
}

/* State while addresses are replaced; lines without addresses stay. */
struct filling {
	const struct dump_raw *raw;
	const struct image *img;
	uint64_t *words; /* of the stack that is being read */
	size_t count;
	size_t capacity;
	struct strbuf text;
};

static bool parse_word(const char *line, uint64_t *ret)
{
	char *end;

	for (uint64_t i = 1; *line == '[' && i <= STACK_PC_LAST_PSEUDO; i++) {
		*ret = i;
		if (!strcmp(line, pseudo_name(i)))
			return true;
	}
	if (strncmp(line, "0x", 2))
		return false;
	*ret = stack_pc_address(strtoull(line, &end, 16));
	if (!strcmp(end, " exact"))
		*ret |= STACK_PC_EXACT;
	else if (*end)
		return false;
	return stack_pc_address(*ret) > STACK_PC_LAST_PSEUDO;
}

static struct error *add_word(struct filling *f, const struct lines *l)
{
	char line[MAX_ADDRESS_LINE];
	uint64_t word;

	if (!copy_line(l, line, sizeof(line)) || !parse_word(line + 1, &word))
		return wrong_line(l);
	if (f->count >= STACK_MAX_FRAMES || !array_reserve(&f->words, &f->capacity, f->count + 1))
		return f->count >= STACK_MAX_FRAMES ? wrong_line(l) : &error_no_memory;
	f->words[f->count++] = word;
	return NULL;
}

static struct error *end_stack(struct filling *f)
{
	_cleanup_traceback_ struct traceback tb = {0};
	struct stack stack = {f->words, f->count, false};
	struct error *err;

	if (!f->count)
		return NULL;
	err = traceback_of(f->img, stack, f->raw->all, TRACEBACK_PRINTED, &tb);
	if (!err)
		traceback_add(&f->text, &tb, NULL);
	f->count = 0;
	return err;
}

/* "created by 0x48d0c5 in goroutine 1", or nothing if the runtime would not print it. */
static struct error *add_creator(struct filling *f, const struct lines *l)
{
	const char *address = l->line + strlen(CREATED_BY) - 2;
	char line[MAX_ADDRESS_LINE], *rest;
	struct dump_goroutine g = {0};
	struct shown_frame frame;

	if (!copy_line(l, line, sizeof(line)))
		return wrong_line(l);
	g.go_pc = strtoull(line + (address - l->line), &rest, 16);
	if (*rest && strncmp(rest, " in goroutine ", 14))
		return wrong_line(l);
	if (!traceback_creator(f->img, &g, f->raw->all, &frame))
		return NULL;
	strbuf_adds(&f->text, "created by ");
	printable_adds(&f->text, frame.frame.function);
	printable_adds(&f->text, rest);
	strbuf_addc(&f->text, '\n');
	traceback_add_creator_place(&f->text, &frame);
	return NULL;
}

static bool begins_with(const struct lines *l, const char *text)
{
	return l->length >= strlen(text) && !memcmp(l->line, text, strlen(text));
}

static struct error *fill_line(struct filling *f, const struct lines *l)
{
	struct error *err;

	if (begins_with(l, "\t0x") || begins_with(l, "\t["))
		return add_word(f, l);
	err = end_stack(f);
	if (err)
		return err;
	if (begins_with(l, CREATED_BY))
		return add_creator(f, l);
	printable_add(&f->text, l->line, l->length);
	strbuf_addc(&f->text, '\n');
	return NULL;
}

static struct error *flush(struct filling *f, FILE *out)
{
	if (f->text.failed)
		return &error_no_memory;
	fwrite(f->text.data, 1, f->text.length, out);
	strbuf_reset(&f->text);
	return NULL;
}

struct error *dump_raw_symbolize(const struct dump_raw *raw, const struct image *img,
				 const atomic_int *cancel, FILE *out)
{
	struct filling f = {.raw = raw, .img = img, .text = STRBUF_INIT};
	struct lines l = {.at = raw->body, .end = raw->body + raw->size};
	struct error *err = NULL;

	while (!err && next_line(&l)) {
		err = cancel_check(cancel);
		if (!err)
			err = fill_line(&f, &l);
		if (!err)
			err = flush(&f, out);
	}
	if (!err)
		err = end_stack(&f);
	if (!err)
		err = flush(&f, out);
	free(f.words);
	strbuf_release(&f.text);
	return err;
}
