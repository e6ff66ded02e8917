#include "made_trace.h"

#include <string.h>

#include "base/cleanup.h"
#include "fuzz.h"
#include "gotrace/event.h"
#include "gotrace/model.h"
#include "made_up_schedule.h"
#include "tests/made_runtime.h"

enum { FILES = 4, EVENTS = 200, EVENTS_OF_GENERATION = 64 };

static struct error *take_generation(void *arg, const void *bytes, size_t size, uint64_t ns)
{
	strbuf_add(arg, bytes, size);
	return NULL;
}

static void write_schedule(const struct trace_format *format, uint64_t seed,
			   const struct trace_writer_options *options)
{
	struct schedule_options schedule = {.seed = seed,
					    .events = EVENTS,
					    .texts = 4,
					    .stacks = 1,
					    .start_pc = MADE_TEXT};
	struct trace_writer *writer;
	struct trace_model *model;
	struct trace_sink sink;
	size_t count;
	_cleanup_free_ struct trace_event *events = schedule_make(&schedule, &count);

	fuzz_require(events && !format->create(options, &writer));
	sink = format->sink(writer);
	fuzz_require(!trace_model_create(&sink, &model));
	for (size_t i = 0; i < count; i++) {
		if (i % EVENTS_OF_GENERATION == EVENTS_OF_GENERATION - 1)
			fuzz_require(!trace_model_new_generation(model, events[i].ns));
		fuzz_require(!trace_model_add(model, &events[i]));
	}
	fuzz_require(!format->finish(writer));
	trace_model_destroy(model);
	format->destroy(writer);
}

static void add_texts(struct texts *texts)
{
	static const char *const all[] = {"k=v p=w", "sync", TRACE_CALL_PREFIX "main.root",
					  "method=GET path=/"};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		fuzz_require(texts_add(texts, all[i], strlen(all[i])) != TEXTS_FAILED);
}

static void write_file(const struct trace_format *format, uint64_t seed,
		       const struct made_runtime *runtime, struct strbuf *file)
{
	_cleanup_stacks_ struct stacks *stacks =
		stacks_create(&runtime->img.functions, MACHINE_AMD64);
	struct texts texts = {0};
	const struct trace_writer_options options = {.functions = &runtime->img.functions,
						     .stacks = stacks,
						     .texts = &texts,
						     .depth = 32,
						     .separate = seed & 1,
						     .process = "p",
						     .generation = take_generation,
						     .arg = file};
	uint64_t pc = made_pc(MADE_LEAF, false);
	uint32_t id;

	add_texts(&texts);
	fuzz_require(stacks && !stacks_intern(stacks, &pc, 1, &id));
	strbuf_add(file, format->header, format->header_size);
	write_schedule(format, seed, &options);
	texts_release(&texts);
}

void made_traces(const struct trace_format *format,
		 void (*take)(void *arg, const struct strbuf *file), void *arg)
{
	static struct made_runtime runtime;

	made_runtime_init(&runtime, 27, 1);
	for (uint64_t seed = 0; seed < FILES; seed++) {
		_cleanup_strbuf_ struct strbuf file = STRBUF_INIT;

		write_file(format, seed, &runtime, &file);
		take(arg, &file);
	}
	made_runtime_release(&runtime);
}
