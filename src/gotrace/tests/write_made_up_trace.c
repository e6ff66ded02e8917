/* Writes the trace of a made-up schedule: write_made_up_trace SEED FILE. The seed also decides
 * which events are lost, late or invalid, and the number of generations. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "gotrace/model.h"
#include "gotrace/trace_format.h"
#include "made_up_schedule.h"
#include "tests/made_functions.h"

static const struct made_function functions[] = {
	{"main.worker", NULL, 16, 0, 0},
	{"main.serve", "main.read", 16, 0, 0},
	{"main.main", NULL, 16, 0, 0},
	{"runtime.main", NULL, 16, 0, 0},
	{"runtime.goexit", NULL, 0, FUNC_TOPFRAME, 0},
};

static const uint64_t made_stacks[][4] = {
	{MADE_TEXT + 12, MADE_TEXT + 4 * MADE_SIZE + 12},
	{MADE_TEXT + 12, MADE_TEXT + MADE_SIZE + MADE_INLINED + 12, MADE_TEXT + 4 * MADE_SIZE + 12},
	{MADE_TEXT + MADE_SIZE + 12, MADE_TEXT + 2 * MADE_SIZE + 12, MADE_TEXT + 3 * MADE_SIZE + 12,
	 MADE_TEXT + 4 * MADE_SIZE + 12},
	{STACK_PC_UNKNOWN, MADE_TEXT + 12},
	{0x10, 0},
};

static struct error *write_generation(void *arg, const void *bytes, size_t size, uint64_t ns)
{
	return fwrite(bytes, 1, size, arg) == size ? NULL
						   : error_format(ERROR_FAILED, "cannot write");
}

static struct error *fill_texts(struct texts *texts, struct stacks *stacks)
{
	static const char *const names[] = {"chan receive", "sync", "preempted", "GC (dedicated)"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (texts_add(texts, names[i], strlen(names[i])) == TEXTS_FAILED)
			return &error_no_memory;
	for (size_t i = 0; i < ARRAY_SIZE(made_stacks); i++) {
		size_t count = 0;
		uint32_t id;
		struct error *err;

		while (count < 4 && made_stacks[i][count])
			count++;
		err = stacks_intern(stacks, made_stacks[i], count, &id);
		if (err)
			return err;
	}
	return NULL;
}

static struct schedule_options options_of(uint64_t seed)
{
	static const unsigned int losses[] = {0, 0, 2, 20, 60, 0};
	unsigned int mode = seed % 6;

	return (struct schedule_options){
		.seed = seed,
		.events = 2000,
		.lose = losses[mode],
		.skip = mode == 1 || mode == 3 ? seed % 700 : 0,
		.late_ns = seed % 4 == 1 ? 600 : 0,
		.nonsense = mode == 5,
		.go126 = seed & 1,
		.texts = 4,
		.stacks = ARRAY_SIZE(made_stacks),
		.start_pc = MADE_TEXT,
	};
}

static struct error *write_events(struct trace_model *model, const struct trace_event *events,
				  size_t count, size_t generation)
{
	struct error *err = NULL;

	for (size_t i = 0; i < count && !err; i++) {
		if (generation && i % generation == generation - 1)
			err = trace_model_new_generation(model, events[i].ns);
		if (!err)
			err = trace_model_add(model, &events[i]);
	}
	return err;
}

static struct error *write_trace(uint64_t seed, const struct trace_format *format, FILE *file,
				 struct made_functions *made)
{
	_cleanup_stacks_ struct stacks *stacks = stacks_create(&made->tab, MACHINE_AMD64);
	struct trace_writer *writer = NULL;
	_cleanup_trace_model_ struct trace_model *model = NULL;
	_cleanup_free_ struct trace_event *events = NULL;
	static const size_t generations[] = {0, 0, 150, 400};
	struct schedule_options schedule = options_of(seed);
	struct trace_writer_options options = {.functions = &made->tab,
					       .depth = 32,
					       .process = "made-up",
					       .pid = 1,
					       .generation = write_generation,
					       .arg = file};
	struct texts texts = {0};
	struct trace_sink sink;
	struct error *err;
	size_t count;

	events = schedule_make(&schedule, &count);
	err = events && stacks ? fill_texts(&texts, stacks) : &error_no_memory;
	options.stacks = stacks;
	options.texts = &texts;
	if (!err)
		err = format->create(&options, &writer);
	if (err)
		return err;
	sink = format->sink(writer);
	err = trace_model_create(&sink, &model);
	if (!err)
		err = write_events(model, events, count, generations[seed / 6 % 4]);
	if (!err)
		err = format->finish(writer);
	if (!err)
		printf("%lu steps, %lu reconciled, %lu dropped\n",
		       (unsigned long)trace_model_stats(model).steps,
		       (unsigned long)trace_model_stats(model).reconciled,
		       (unsigned long)trace_model_stats(model).dropped);
	format->destroy(writer);
	texts_release(&texts);
	return err;
}

int main(int argc, char **argv)
{
	_cleanup_fclose_ FILE *file = argc == 3 ? fopen(argv[2], "w") : NULL;
	_cleanup_error_ struct error *err = NULL;
	const struct trace_format *format;
	struct made_functions made;

	if (!file) {
		fprintf(stderr, "write_made_up_trace: SEED FILE\n");
		return 2;
	}
	made_functions_init(&made, PCLNTAB_GO120, functions, ARRAY_SIZE(functions));
	format = strstr(argv[2], trace_format_perfetto.suffix) ? &trace_format_perfetto
							       : &trace_format_go;
	fwrite(format->header, 1, format->header_size, file);
	err = write_trace(strtoull(argv[1], NULL, 10), format, file, &made);
	made_functions_release(&made);
	if (err)
		fprintf(stderr, "write_made_up_trace: %s\n", err->message);
	return err ? 1 : 0;
}
