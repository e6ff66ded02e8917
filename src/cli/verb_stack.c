#include <gospect/stack_memory.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/look.h"
#include "cli/stop.h"
#include "cli/unwind_option.h"

/* How long a command may take to make the goroutine. */
#define PATIENCE_NS 5000000000ull
#define PAUSE_US 10000

struct stack_verb {
	struct common_options request;
	uint32_t unwind; /* enum gospect_unwind */
	unsigned long goid;
	enum gospect_format format;
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
	struct error *err;

	if (!v->goid)
		return error_format(
			ERROR_USAGE,
			"stack: no goroutine; use -g GOID (`gospect dump` lists the goroutines)");
	err = output_text_or_json(&v->request.output, "stack", &v->format);
	return err ? err : target_options_check(&v->request.target, "stack");
}

static void cleanup_memory(struct gospect_stack_memory **m)
{
	gospect_stack_memory_destroy(*m);
}

/* A command that has just begun may be about to make the goroutine. */
static struct error *take(const struct stack_verb *v, const struct cli_target *s,
			  struct gospect_stack_memory **ret)
{
	uint64_t until = clock_now() + (s->child ? PATIENCE_NS : 0);

	for (;;) {
		struct error *err = library_error(
			gospect_stack_memory_take(s->handle, v->goid, v->unwind, ret));

		if (!err || err->code != ERROR_FAILED || clock_now() > until || stop_requested)
			return err;
		error_destroy(err);
		usleep(PAUSE_US);
	}
}

static struct error *take_and_write(void *verb, const struct cli_target *s, struct outfile *out)
{
	const struct stack_verb *v = verb;
	_cleanup_(cleanup_memory) struct gospect_stack_memory *memory = NULL;
	struct error *err = take(v, s, &memory);

	if (err)
		return err;
	return library_error(gospect_stack_memory_write(memory, v->format, output_sink(out)));
}

static struct error *run(int argc, char **argv, int *ret)
{
	struct stack_verb v = {
		.request.target = {.reads_cores = true, .confines = true, .completes = true}};
	bool help;
	struct error *err = parse_options(&argp, "stack", argc, argv, &v, &help);

	if (err || help)
		return err;
	err = check(&v);
	return err ? err : look_once(&v.request, take_and_write, &v, ret);
}

const struct verb verb_stack = {"stack", "explain one goroutine's stack memory, word by word", run};
