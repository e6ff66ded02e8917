#include <gospect/stack_memory.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/outfile.h"
#include "cli/common_options.h"
#include "cli/unwind_option.h"

struct stack_verb {
	struct common_options request;
	uint32_t unwind; /* enum gospect_unwind */
	unsigned long goid;
	bool json;
};

static const struct argp_option options[] = {{NULL, 0, NULL, 0, "Stack:", 4},
					     {"goid", 'g', "GOID", 0,
					      "Print the stack of this goroutine", 4},
					     {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct stack_verb *v = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &v->request;
		state->child_inputs[1] = &v->request.target;
		state->child_inputs[2] = &v->unwind;
		return 0;
	case 'g':
		return parse_id(arg, &v->goid)
			       ? 0
			       : wrong_option(state, "invalid goroutine id '%s'", arg);
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_child children[] = {{&common_options_without_filter_argp, 0, NULL, 0},
					     {&target_options_core_argp, 0, NULL, 0},
					     {&unwind_argp, 0, NULL, 0},
					     {0}};

static const struct argp argp =
	{options,
	 parse,
	 "-g GOID PID|NAME\n-g GOID -- COMMAND ARGS...\n-g GOID --core FILE",
	 "Prints the memory of one goroutine's stack and explains each word: return addresses, "
	 "saved frame pointers, arguments and local variables. It does not stop the program.\v"
	 "Formats: text, json (.json). Offsets count from the topmost word of the stack; values "
	 "are hexadecimal. Variables need DWARF: for a stripped program, name an unstripped file "
	 "of the same build with --exe.\n"
	 "\n"
	 "Examples:\n"
	 "  gospect stack -p server -g 18\n"
	 "  gospect stack --core core.1234 -g 18 -f json",
	 children,
	 NULL,
	 NULL};

static struct error *check(struct stack_verb *v)
{
	const struct output_options *o = &v->request.output;
	size_t n = o->path ? strlen(o->path) : 0;

	if (!v->goid)
		return error_format(
			ERROR_USAGE,
			"stack: no goroutine; use -g GOID (`gospect dump` lists the goroutines)");
	if (o->format && strcmp(o->format, "text") && strcmp(o->format, "json"))
		return error_format(ERROR_USAGE, "stack: unknown format '%s'; use text or json",
				    o->format);
	v->json = o->format ? !strcmp(o->format, "json")
			    : n >= 5 && !strcmp(o->path + n - 5, ".json");
	return target_options_check(&v->request.target, "stack");
}

static void cleanup_memory(struct gospect_stack_memory **m)
{
	gospect_stack_memory_destroy(*m);
}

static struct error *take_and_write(const struct stack_verb *v, const struct cli_target *s,
				    struct outfile *out)
{
	_cleanup_(cleanup_memory) struct gospect_stack_memory *memory = NULL;
	struct error *err =
		library_error(gospect_stack_memory_take(s->handle, v->goid, v->unwind, &memory));

	if (err)
		return err;
	return library_error(gospect_stack_memory_write(memory,
							v->json ? GOSPECT_JSON : GOSPECT_TEXT,
							output_sink(out)));
}

static struct error *run_stack(struct stack_verb *v, int *ret)
{
	const char *path = v->request.output.path;
	_cleanup_outfile_ struct outfile out = {0};
	_cleanup_cli_target_ struct cli_target s = {0};
	struct error *err = check(v);

	if (!err)
		err = outfile_open(path ? path : "-", &out);
	v->request.target.out = &out;
	if (!err)
		err = cli_target_open(&v->request.target, &s);
	if (!err)
		err = take_and_write(v, &s, &out);
	if (!err)
		err = outfile_commit(&out);
	if (s.child)
		*ret = cli_target_wait(&s);
	return err;
}

static struct error *run(int argc, char **argv, int *ret)
{
	struct stack_verb v = {.request.target = {.reads_cores = true, .confines = true}};
	bool help;
	struct error *err = parse_options(&argp, "stack", argc, argv, &v, &help);

	if (!err && !help)
		err = run_stack(&v, ret);
	return err;
}

const struct verb verb_stack = {"stack", "one goroutine's stack memory, explained word by word",
				run};
