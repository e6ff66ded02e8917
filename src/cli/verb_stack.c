#include <string.h>

#include "annotate/annotate.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "base/outfile.h"
#include "base/printable.h"
#include "cli/request.h"
#include "cli/unwind_option.h"
#include "goroutine/snapshot.h"
#include "image/variables.h"
#include "profile/json_text.h"

/* What is above in a deeper stack is left out. */
#define STACK_LIMIT (64u << 20)

struct stack_verb {
	struct request request;
	enum unwind_method unwind;
	unsigned long goid;
	bool json;
};

static const struct argp_option options[] = {{"goid", 'g', "GOID", 0, "The goroutine", 4}, {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct stack_verb *v = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &v->request;
		state->child_inputs[1] = &v->unwind;
		return 0;
	case 'g':
		return parse_id(arg, &v->goid)
			       ? 0
			       : wrong_option(state, "'%s' is no goroutine id", arg);
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_child children[] = {{&request_without_filter_argp, 0, NULL, 0},
					     {&unwind_argp, 0, NULL, 0},
					     {0}};

static const struct argp argp =
	{options,
	 parse,
	 "-g GOID -p PID\n-g GOID -- COMMAND ARGS...\n-g GOID --core FILE",
	 "Prints the memory of one goroutine's stack, without stopping the program, and says of "
	 "each word what it is: return addresses, saved frame pointers, arguments and local "
	 "variables.\vFormats: text, json; by the file's name: .json. Offsets are counted from the "
	 "topmost word of the stack, values are hexadecimal. Variables need the program's DWARF: "
	 "of a stripped one give an unstripped file of the same build with --exe.\n"
	 "\n"
	 "Example: gospect stack -p 1234 -g 18",
	 children,
	 NULL,
	 NULL};

static struct error *check(struct stack_verb *v)
{
	const struct output_options *o = &v->request.output;
	size_t n = o->path ? strlen(o->path) : 0;

	if (!v->goid)
		return error_format(ERROR_USAGE, "stack: no goroutine; give -g GOID (`gospect "
						 "dump` lists them)");
	if (o->format && strcmp(o->format, "text") && strcmp(o->format, "json"))
		return error_format(ERROR_USAGE,
				    "stack: there is no format '%s'; there are text and json",
				    o->format);
	v->json = o->format ? !strcmp(o->format, "json")
			    : n >= 5 && !strcmp(o->path + n - 5, ".json");
	return subject_check(&v->request.subject, "stack");
}

static bool registers_of(void *arg, uint64_t thread, struct target_registers *ret)
{
	return thread <= INT32_MAX && target_registers(arg, (pid_t)thread, ret);
}

/* What is known of the program's variables. */
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

/* Broken DWARF takes nothing from what is known without it. */
static struct error *open_source(const struct image *img, struct source *ret)
{
	struct error *err = variables_open(img->elf, &ret->variables);

	ret->bias = img->bias;
	if (!err && !ret->variables && img->twin)
		err = variables_open(img->twin, &ret->variables);
	if (err && err->code == ERROR_CORRUPT) {
		say("%s; arguments and variables are not shown", err->message);
		error_destroy(err);
		return NULL;
	}
	if (!err && !ret->variables)
		say("%s has no DWARF: arguments and variables are not shown; --exe FILE names an "
		    "unstripped file of the same build",
		    elf_file_name(img->elf));
	return err;
}

static void say_limits(const struct goroutine_snapshot *g, const struct image *img,
		       const struct target_core *core)
{
	if (core && img->unchecked)
		say("%s does not show which build it is of: that %s is its program could not be "
		    "checked",
		    core->path, elf_file_name(img->elf));
	if (!g->memory.whole)
		say("the stack has %lu bytes; the %u MB that were used last are shown",
		    g->stack_end - g->memory.sp, STACK_LIMIT >> 20);
	else if (g->frames.end != FRAMES_WHOLE)
		say("the frames above 0x%lx are not known: the stack cannot be unwound there",
		    g->frames.count ? g->frames.items[g->frames.count - 1].sp : g->memory.sp);
}

/* Hexadecimal digits that are needed, but for leading zeroes. */
static int digits(uint64_t bits, int least)
{
	while (least < 16 && bits >> (4 * least))
		least++;
	return least;
}

/* Of the widest value. */
static int value_digits(const struct goroutine_snapshot *g, int least)
{
	uint64_t all = 0, word;

	for (size_t at = 0; at + sizeof(word) <= g->memory.size; at += sizeof(word)) {
		memcpy(&word, g->memory.bytes + at, sizeof(word));
		all |= word;
	}
	return digits(all, least);
}

/* The columns grow with what is in them. */
static void write_text(const struct goroutine_snapshot *g, struct annotation *a, FILE *out)
{
	int address = digits(g->stack_end, 10), value = value_digits(g, 12);
	struct annotate_row row;

	fprintf(out, "%-8s%-*s%10s  %-*s  %s\n", "regs", address, "addr", "offset", value, "value",
		"explanation");
	while (annotation_next(a, &row)) {
		if (row.in_register)
			printable_line(out, "%-8s%-*s%10s  %-*lx  %s", row.in_register, address, "",
				       "", value, row.value, row.text);
		else
			printable_line(out, "%-8s%-*lx%10ld  %-*lx  %s",
				       row.is_sp   ? "sp -->"
				       : row.is_fp ? "bp -->"
						   : "",
				       address, row.address, row.offset, value, row.value,
				       row.text);
	}
}

static struct error *write_json_row(const struct annotate_row *row, FILE *out)
{
	struct error *err;

	if (row->in_register)
		fprintf(out, "{\"register\": \"%s\", ", row->in_register);
	else
		fprintf(out, "{\"address\": \"0x%lx\", \"offset\": %ld, ", row->address,
			row->offset);
	if (row->is_sp || row->is_fp)
		fprintf(out, "\"pointed_to_by\": [%s%s%s], ", row->is_sp ? "\"sp\"" : "",
			row->is_sp && row->is_fp ? ", " : "", row->is_fp ? "\"bp\"" : "");
	fprintf(out, "\"value\": \"0x%lx\", \"explanation\": ", row->value);
	err = json_text_write(row->text, out);
	fputc('}', out);
	return err;
}

static struct error *write_json(const struct stack_verb *v, const struct goroutine_snapshot *g,
				struct annotation *a, FILE *out)
{
	struct error *err = NULL;
	struct annotate_row row;

	fprintf(out, "{\n\"goroutine\": %lu,\n\"unwind\": \"%s\",\n\"words\": [", g->goid,
		unwind_method_name(v->unwind));
	for (const char *before = "\n"; !err && annotation_next(a, &row); before = ",\n") {
		fputs(before, out);
		err = write_json_row(&row, out);
	}
	fputs("\n]\n}\n", out);
	return err;
}

static struct error *annotate(const struct stack_verb *v, const struct subject *s,
			      const struct goroutine_snapshot *g, FILE *out)
{
	_cleanup_annotation_ struct annotation *a = NULL;
	_cleanup_(source_close) struct source source = {0};
	struct annotate_input in = {
		.functions = &s->image->functions,
		.machine = s->image->machine,
		.memory = g->memory,
		.frames = &g->frames,
		.stack_end = g->stack_end,
		.fp = g->fp,
		.general = g->has_general ? g->registers.general : NULL,
		.general_count = ARRAY_SIZE(g->registers.general),
		.arg = &source,
	};
	struct error *err = open_source(s->image, &source);

	if (source.variables)
		in.variables = variables_of;
	if (!err)
		err = annotation_create(&in, &a);
	if (err)
		return err;
	say_limits(g, s->image, target_core(s->target));
	if (source.variables && variables_given_up(source.variables))
		say("the DWARF describes more than gospect looks at: variables may be missing at "
		    "%zu addresses",
		    variables_given_up(source.variables));
	if (v->json)
		return write_json(v, g, a, out);
	unwind_write_mark(v->unwind, out);
	write_text(g, a, out);
	return NULL;
}

static struct error *take_and_write(const struct stack_verb *v, const struct subject *s, FILE *out)
{
	_cleanup_goroutine_snapshot_ struct goroutine_snapshot g = {0};
	_cleanup_goroutine_set_ struct goroutine_set *set = NULL;
	struct goroutine_options goroutines = {
		.stack_limit = STACK_LIMIT,
		.registers = target_core(s->target) ? registers_of : NULL,
		.registers_arg = s->target,
	};
	_cleanup_debug_frame_ struct debug_frame *frames = NULL;
	struct error *err = unwind_open(v->unwind, s->image, &frames, &goroutines.unwind);

	if (err)
		return err;
	err = goroutine_set_open(s->target, s->image, s->layout, &goroutines, &set);
	if (!err)
		err = goroutine_snapshot_take(set, v->goid, &g);
	if (err)
		return target_explain(s->target, err);
	return annotate(v, s, &g, out);
}

static struct error *run_stack(struct stack_verb *v, int *ret)
{
	const char *path = v->request.output.path;
	_cleanup_outfile_ struct outfile out = {0};
	_cleanup_subject_ struct subject s = {0};
	struct error *err = check(v);

	if (!err)
		err = outfile_open(path ? path : "-", &out);
	v->request.subject.out = &out;
	if (!err)
		err = subject_open(&v->request.subject, &s);
	if (!err)
		err = take_and_write(v, &s, out.stream);
	if (!err)
		err = outfile_commit(&out);
	if (s.child)
		*ret = subject_wait(&s);
	return err;
}

static struct error *run(int argc, char **argv, int *ret)
{
	struct stack_verb v = {.request.subject = {.reads_cores = true, .confines = true}};
	bool help;
	struct error *err = parse_options(&argp, "stack", argc, argv, &v, &help);

	if (!err && !help)
		err = run_stack(&v, ret);
	request_release(&v.request);
	return err;
}

const struct verb verb_stack = {"stack", "one goroutine's stack memory, explained word by word",
				run};
