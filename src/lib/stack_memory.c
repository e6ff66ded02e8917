#include <gospect/stack_memory.h>
#include <stdlib.h>
#include <string.h>

#include "annotate/annotate.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "base/printable.h"
#include "goroutine/goroutine_snapshot.h"
#include "lib/error_api.h"
#include "lib/given.h"
#include "lib/program_variables.h"
#include "lib/sampled_stack.h"
#include "lib/sink.h"
#include "lib/target_handle.h"
#include "lib/unwind.h"
#include "profile/json_text.h"

/* The outer end of a deeper stack is left out. */
#define STACK_LIMIT (64u << 20)

struct gospect_stack_memory {
	uint64_t goid;
	uint64_t stack_end;
	enum unwind_method unwind;
	struct arena given;
	const struct gospect_stack_word **words;
	size_t count;
	size_t capacity;
};

void gospect_stack_memory_destroy(struct gospect_stack_memory *m)
{
	if (!m)
		return;
	arena_release(&m->given);
	free(m->words);
	free(m);
}

static void cleanup_stack_memory(struct gospect_stack_memory **m)
{
	gospect_stack_memory_destroy(*m);
}

static bool registers_of(void *arg, uint64_t thread, struct target_registers *ret)
{
	return thread <= INT32_MAX && target_registers(arg, (pid_t)thread, ret);
}

/* The source of the program's variables. */
struct source {
	struct variables *variables;
	uint64_t bias;
};

static void source_close(struct source *s)
{
	variables_close(s->variables);
}

static struct error *variables_of(void *arg, uint64_t pc, bool is_return,
				  const struct variable **ret, size_t *ret_count)
{
	const struct source *s = arg;

	return variables_at(s->variables, pc - s->bias, is_return, ret, ret_count);
}

static void remark_limits(const struct gospect_target *t, const struct goroutine_snapshot *g)
{
	const struct target_core *core = target_core(t->target);

	if (core && t->image->unchecked)
		remark(&t->remark, "%s has no build id: cannot check that %s is its program",
		       core->path, elf_file_name(t->image->elf));
	if (!g->memory.whole && g->memory.size < STACK_LIMIT)
		return; /* a sample, which has been said */
	if (!g->memory.whole)
		remark(&t->remark, "the stack has %lu bytes; the innermost %u MB are shown",
		       g->stack_end - g->memory.sp, STACK_LIMIT >> 20);
	else if (g->frames.end != FRAMES_WHOLE)
		remark(&t->remark,
		       "cannot unwind the stack above 0x%lx: callers from there on are not shown",
		       g->frames.count ? g->frames.items[g->frames.count - 1].sp : g->memory.sp);
}

static const char *keep(struct gospect_stack_memory *m, const char *text)
{
	char *copy = given_take(&m->given, strlen(text) + 1);

	return copy ? strcpy(copy, text) : NULL;
}

static bool add_word(struct gospect_stack_memory *m, const struct annotate_row *row)
{
	struct gospect_stack_word *word = given_take(&m->given, sizeof(*word));

	if (!word || !array_reserve(&m->words, &m->capacity, m->count + 1))
		return false;
	*word = (struct gospect_stack_word){.address = row->address,
					    .offset = row->offset,
					    .value = row->value,
					    .explanation = keep(m, row->text),
					    .is_sp = row->is_sp,
					    .is_fp = row->is_fp};
	if (row->in_register)
		word->in_register = keep(m, row->in_register);
	m->words[m->count++] = word;
	return word->explanation && (word->in_register || !row->in_register);
}

static struct error *must_check annotate(const struct gospect_target *t,
					 const struct goroutine_snapshot *g,
					 struct gospect_stack_memory *m)
{
	_cleanup_annotation_ struct annotation *a = NULL;
	_cleanup_(source_close) struct source source = {.bias = t->image->bias};
	struct annotate_input in = {
		.functions = &t->image->functions,
		.machine = t->image->machine,
		.memory = g->memory,
		.frames = &g->frames,
		.stack_end = g->stack_end,
		.fp = g->fp,
		.general = g->has_general ? g->registers.general : NULL,
		.general_count = ARRAY_SIZE(g->registers.general),
		.arg = &source,
	};
	struct error *err = program_variables_open(t, &source.variables);
	struct annotate_row row;

	if (source.variables)
		in.variables = variables_of;
	if (!err)
		err = annotation_create(&in, &a);
	while (!err && annotation_next(a, &row))
		if (!add_word(m, &row))
			err = &error_no_memory;
	if (!err)
		remark_limits(t, g);
	if (!err && source.variables && variables_given_up(source.variables))
		remark(&t->remark,
		       "the DWARF exceeds gospect's limits: variables may be missing at %zu "
		       "addresses",
		       variables_given_up(source.variables));
	m->goid = g->goid;
	m->stack_end = g->stack_end;
	return err;
}

static struct error *must_check take(struct gospect_target *t, uint64_t goid, uint32_t unwind,
				     struct gospect_stack_memory *m)
{
	_cleanup_goroutine_snapshot_ struct goroutine_snapshot g = {0};
	_cleanup_goroutine_set_ struct goroutine_set *set = NULL;
	struct goroutine_options goroutines = {
		.stack_limit = STACK_LIMIT,
		.registers = target_core(t->target) ? registers_of : NULL,
		.registers_arg = t->target,
	};
	_cleanup_debug_frame_ struct debug_frame *frames = NULL;
	struct error *err = target_check_cancel(t);
	bool runs;

	if (!err)
		err = unwind_open(unwind, t->image, &frames, &goroutines.unwind);
	if (err)
		return err;
	m->unwind = goroutines.unwind.method;
	err = goroutine_set_open(t->target, t->image, t->layout, &goroutines, &set);
	if (!err)
		err = goroutine_snapshot_take(set, goid, &runs, &g);
	if (!err && runs)
		err = sampled_stack_take(t, set, &g);
	return err ? target_explain(t->target, err) : annotate(t, &g, m);
}

struct gospect_error *gospect_stack_memory_take(struct gospect_target *t, uint64_t goroutine,
						uint32_t unwind, struct gospect_stack_memory **ret)
{
	_cleanup_(cleanup_stack_memory) struct gospect_stack_memory *m = calloc(1, sizeof(*m));
	struct error *err = m ? take(t, goroutine, unwind, m) : &error_no_memory;

	if (!err)
		*ret = take_ptr(m);
	return error_out(err);
}

const struct gospect_stack_word *const *
gospect_stack_memory_words(const struct gospect_stack_memory *m, size_t *ret_count)
{
	*ret_count = m->count;
	return m->words;
}

/* The number of hexadecimal digits without leading zeroes. */
static int digits(uint64_t bits, int least)
{
	while (least < 16 && bits >> (4 * least))
		least++;
	return least;
}

/* The digits of the widest value in memory. */
static int value_digits(const struct gospect_stack_memory *m, int least)
{
	uint64_t all = 0;

	for (size_t i = 0; i < m->count; i++)
		all |= m->words[i]->in_register ? 0 : m->words[i]->value;
	return digits(all, least);
}

/* The columns are as wide as their contents. */
static void write_text(const struct gospect_stack_memory *m, FILE *out)
{
	int address = digits(m->stack_end, 10), value = value_digits(m, 12);

	unwind_write_mark(m->unwind, out);
	fprintf(out, "%-8s%-*s%10s  %-*s  %s\n", "regs", address, "addr", "offset", value, "value",
		"explanation");
	for (size_t i = 0; i < m->count; i++) {
		const struct gospect_stack_word *w = m->words[i];

		if (w->in_register)
			printable_line(out, "%-8s%-*s%10s  %-*lx  %s", w->in_register, address, "",
				       "", value, w->value, w->explanation);
		else
			printable_line(out, "%-8s%-*lx%10ld  %-*lx  %s",
				       w->is_sp   ? "sp -->"
				       : w->is_fp ? "bp -->"
						  : "",
				       address, w->address, w->offset, value, w->value,
				       w->explanation);
	}
}

static struct error *must_check write_json_word(const struct gospect_stack_word *w, FILE *out)
{
	struct error *err;

	if (w->in_register)
		fprintf(out, "{\"register\": \"%s\", ", w->in_register);
	else
		fprintf(out, "{\"address\": \"0x%lx\", \"offset\": %ld, ", w->address, w->offset);
	if (w->is_sp || w->is_fp)
		fprintf(out, "\"pointed_to_by\": [%s%s%s], ", w->is_sp ? "\"sp\"" : "",
			w->is_sp && w->is_fp ? ", " : "", w->is_fp ? "\"bp\"" : "");
	fprintf(out, "\"value\": \"0x%lx\", \"explanation\": ", w->value);
	err = json_text_write(w->explanation, out);
	fputc('}', out);
	return err;
}

static struct error *must_check write_json(const struct gospect_stack_memory *m, FILE *out)
{
	struct error *err = NULL;

	fprintf(out, "{\n\"goroutine\": %lu,\n\"unwind\": \"%s\",\n\"words\": [", m->goid,
		unwind_method_name(m->unwind));
	for (size_t i = 0; !err && i < m->count; i++) {
		fputs(i ? ",\n" : "\n", out);
		err = write_json_word(m->words[i], out);
	}
	fputs("\n]\n}\n", out);
	return err;
}

struct gospect_error *gospect_stack_memory_write(const struct gospect_stack_memory *m,
						 enum gospect_format format,
						 struct gospect_sink sink)
{
	struct sink_stream out;
	struct error *err;

	if (format != GOSPECT_TEXT && format != GOSPECT_JSON)
		return error_out(error_format(
			ERROR_USAGE,
			"invalid format %d for stack memory; use GOSPECT_TEXT or GOSPECT_JSON",
			format));
	err = sink_open(&sink, &out);
	if (err)
		return error_out(err);
	if (format == GOSPECT_TEXT)
		write_text(m, out.file);
	else
		err = write_json(m, out.file);
	return error_out(sink_close(&out, err));
}
