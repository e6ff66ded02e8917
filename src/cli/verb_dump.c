#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/outfile.h"
#include "cli/fill.h"
#include "cli/request.h"
#include "cli/say_core.h"
#include "cli/stop.h"
#include "cli/unwind_option.h"
#include "dump/dump.h"
#include "dump/raw.h"
#include "profile/profile.h"

/* Deeper stacks end in "...additional frames elided...". */
#define STACK_LIMIT (64u << 20)

enum { KEY_ALL = 0x4000, KEY_GROUP, KEY_RAW };

struct dump_verb {
	struct request request;
	enum unwind_method unwind;
	bool all;
	bool group;
	bool raw;
};

static const struct argp_option options[] =
	{{"all", KEY_ALL, NULL, 0,
	  "Show the runtime's own goroutines and frames too, "
	  "as SIGQUIT with GOTRACEBACK=system does",
	  4},
	 {"group", KEY_GROUP, NULL, 0, "Put equal stacks together, most goroutines first", 4},
	 {"raw", KEY_RAW, NULL, 0,
	  "Addresses only, without functions and lines; gospect "
	  "symbolize completes it",
	  4},
	 {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct dump_verb *v = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &v->request;
		state->child_inputs[1] = &v->unwind;
		return 0;
	case KEY_ALL:
		v->all = true;
		return 0;
	case KEY_GROUP:
		v->group = true;
		return 0;
	case KEY_RAW:
		v->raw = true;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_child children[] = {{&request_argp, 0, NULL, 0},
					     {&unwind_argp, 0, NULL, 0},
					     {0}};

static const struct argp argp =
	{options,
	 parse,
	 "-p PID\n-- COMMAND ARGS...\n--core FILE",
	 "Prints every goroutine of a Go program, without stopping it, or of one that left a core "
	 "file.\vFormats: text (as the runtime prints it), json, folded, pprof; by the file's "
	 "name: .json .folded .pb.gz .pprof.\n"
	 "\n"
	 "Example: gospect dump -p 1234 --wait sync.Mutex.Lock --group",
	 children,
	 NULL,
	 NULL};

/* Each goroutine is a sample of its own, without a time: how long it stands there nobody knows. */
static struct error *make_profile(const struct dump *dump, const struct subject *s,
				  struct profile **ret)
{
	_cleanup_profile_ struct profile *p = profile_create();
	struct error *err = p ? fill_process(p, s) : &error_no_memory;

	if (!err)
		err = fill_unwinding(p, dump->set);
	for (size_t i = 0; !err && i < dump->count; i++) {
		const struct dump_goroutine *g = &dump->items[i];
		struct profile_sample sample = {.count = 1};

		err = fill_sample(p, dump->set, g->stack, g->labels, g->status, g->wait_reason,
				  &sample);
	}
	if (err)
		return err;
	*ret = take_ptr(p);
	return NULL;
}

static struct error *write_profile(const struct dump_verb *v, const struct dump *dump,
				   const struct subject *s, const struct profile_format *format,
				   FILE *out)
{
	const struct code code = {
		.functions = &s->image->functions,
		.modules = dump->sampler ? oncpu_sampler_modules(dump->sampler) : NULL,
	};
	_cleanup_profile_symbols_ struct profile_symbols *symbols = NULL;
	_cleanup_profile_ struct profile *p = NULL;
	struct error *err = make_profile(dump, s, &p);

	if (!err)
		err = v->raw ? profile_symbolize(p, NULL, &symbols)
			     : profile_symbolize_code(p, &code, &symbols);
	if (!err)
		err = fill_modules(p, code.modules);
	return err ? err : format->write(p, symbols, out);
}

/* The mappings of the file's addresses are those that a profile of it would have. */
static struct error *write_raw(const struct dump_verb *v, const struct dump *dump,
			       const struct subject *s, FILE *out)
{
	_cleanup_dump_raw_ struct dump_raw raw = {.all = v->all};
	_cleanup_profile_ struct profile *p = profile_create();
	struct error *err = p ? fill_process(p, s) : &error_no_memory;

	if (err)
		return err;
	if (!array_reserve(&raw.mappings, &raw.capacity, p->mapping_count))
		return &error_no_memory;
	for (; raw.count < p->mapping_count; raw.count++) {
		const struct profile_mapping *m = &p->mappings[raw.count];

		raw.mappings[raw.count] =
			(struct module_range){m->start, m->end, m->offset, m->file, m->build_id};
	}
	return dump_write_raw(dump, &raw, v->group, out);
}

#define RAW_FORMATS "dump: --raw writes text or pprof; give -f text or -f pprof"

/* A way to write a dump: the runtime's text, JSON, or one of a profile's formats. */
struct dump_format {
	bool json;
	const struct profile_format *profile; /* NULL: text or JSON */
};

static bool has_suffix(const char *s, const char *suffix)
{
	size_t n = s ? strlen(s) : 0, m = strlen(suffix);

	return n >= m && !strcmp(s + n - m, suffix);
}

static struct error *choose_format(const struct dump_verb *v, struct dump_format *ret)
{
	const char *name = v->request.output.format;

	*ret = (struct dump_format){0};
	if (name && !strcmp(name, "text"))
		return NULL;
	ret->json = name ? !strcmp(name, "json") : has_suffix(v->request.output.path, ".json");
	if (ret->json && v->raw)
		return error_format(ERROR_USAGE, RAW_FORMATS);
	if (ret->json)
		return NULL;
	if (name)
		ret->profile = profile_format_named(name);
	else if (v->request.output.path)
		ret->profile = profile_format_for_file(v->request.output.path);
	if (name && !ret->profile)
		return error_format(ERROR_USAGE,
				    "dump: there is no format '%s'; there are text, json, folded "
				    "and pprof",
				    name);
	if (v->raw && ret->profile && ret->profile != &profile_format_pprof)
		return error_format(ERROR_USAGE, RAW_FORMATS);
	if (ret->profile && v->group)
		return error_format(ERROR_USAGE, "dump: --group is for the text; the other formats "
						 "have equal stacks together anyway");
	if (ret->profile && ret->profile->binary && output_is_terminal(&v->request.output))
		return error_format(ERROR_USAGE, "dump: %s is not for a terminal; give -o FILE",
				    ret->profile->name);
	return NULL;
}

static struct error *write_dump(const struct dump_verb *v, const struct dump *dump,
				const struct subject *s, const struct dump_format *format,
				struct outfile *out)
{
	struct error *err;

	if (format->profile)
		err = write_profile(v, dump, s, format->profile, out->stream);
	else if (format->json)
		err = dump_write_json(dump, v->all, out->stream);
	else if (v->raw)
		err = write_raw(v, dump, s, out->stream);
	else if (v->group)
		err = dump_write_groups(dump, v->all, out->stream);
	else
		err = dump_write_text(dump, v->all, out->stream);
	return err ? err : outfile_commit(out);
}

static void apply_filter(struct filter *f, struct dump *dump)
{
	size_t n = 0;

	for (size_t i = 0; i < dump->count; i++) {
		const struct dump_goroutine *g = &dump->items[i];
		struct filter_subject subject = {g->status, g->wait_reason, g->stack, g->labels,
						 g->id};

		if (filter_matches(f, &subject, dump->set, dump->img))
			dump->items[n++] = *g;
	}
	dump->count = n;
}

static void say_what_is_missing(const struct dump *dump)
{
	for (size_t i = 0; dump->no_on_cpu && i < dump->count; i++) {
		if (dump->items[i].status != G_RUNNING)
			continue;
		say("stacks of what runs are not known: %s", dump->no_on_cpu->message);
		return;
	}
}

static struct error *run_dump(struct dump_verb *v)
{
	const char *path = v->request.output.path;
	_cleanup_outfile_ struct outfile out = {0};
	_cleanup_subject_ struct subject s = {0};
	_cleanup_debug_frame_ struct debug_frame *frames = NULL;
	_cleanup_dump_ struct dump *dump = NULL;
	struct dump_options collect = {.stack_limit = STACK_LIMIT, .system = v->all};
	struct dump_format format;
	struct error *err = subject_check(&v->request.subject, "dump");

	if (!err)
		err = choose_format(v, &format);
	if (!err)
		err = outfile_open(path ? path : "-", &out);
	v->request.subject.out = &out;
	/* A moment until it is written: that is not lost to a signal. */
	if (path)
		stop_on_signals();
	if (!err)
		err = subject_open(&v->request.subject, &s);
	if (!err)
		err = unwind_open(v->unwind, s.image, &frames, &collect.unwind);
	if (err)
		return err;
	err = dump_collect(s.target, s.image, s.layout, &collect, &dump);
	if (err)
		return target_explain(s.target, err);
	if (dump->core)
		say_core(dump);
	apply_filter(&v->request.filter, dump);
	say_what_is_missing(dump);
	unwind_say(v->unwind);
	if (v->request.filter.goid && !dump->count)
		return error_format(ERROR_FAILED, "process %d has no goroutine %lu that matches",
				    dump->pid, v->request.filter.goid);
	return write_dump(v, dump, &s, &format, &out);
}

static struct error *run(int argc, char **argv, int *ret)
{
	struct dump_verb v = {.request.subject = {.reads_cores = true, .confines = true}};
	bool help;
	struct error *err = parse_options(&argp, "dump", argc, argv, &v, &help);

	if (!err && !help)
		err = run_dump(&v);
	request_release(&v.request);
	return err;
}

const struct verb verb_dump = {"dump", "every goroutine now, with its stack", run};
