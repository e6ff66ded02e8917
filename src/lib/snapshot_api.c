/*
 * A snapshot is a dump that hands out its goroutines one by one. A stack is symbolized at the first
 * request, each distinct one once; the writers of formats do that by themselves.
 */
#include <gospect/snapshot.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "dump/dump.h"
#include "dump/raw_dump.h"
#include "dump/traceback.h"
#include "lib/core_remark.h"
#include "lib/error_api.h"
#include "lib/fill.h"
#include "lib/goroutine_filter.h"
#include "lib/leaked.h"
#include "lib/options.h"
#include "lib/profile_handle.h"
#include "lib/program_variables.h"
#include "lib/sink.h"
#include "lib/stack.h"
#include "lib/target_handle.h"
#include "lib/unwind.h"

/* Deeper stacks end in "...additional frames elided...". */
#define STACK_LIMIT (64u << 20)

struct gospect_snapshot {
	const struct gospect_target *target;
	struct debug_frame *frames;
	struct variables *variables; /* NULL: local variables were not requested */
	struct dump *dump;
	bool all; /* frames that the runtime hides are shown */
	struct arena given;
	struct map stacks; /* number of a stack -> its struct gospect_stack */
	const struct gospect_goroutine *const *goroutines; /* NULL: not asked for yet */
};

void gospect_snapshot_destroy(struct gospect_snapshot *s)
{
	if (!s)
		return;
	map_release(&s->stacks);
	arena_release(&s->given);
	dump_destroy(s->dump);
	variables_close(s->variables);
	debug_frame_close(s->frames);
	free(s);
}

static void cleanup_snapshot(struct gospect_snapshot **s)
{
	gospect_snapshot_destroy(*s);
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

static void remark_missing(const struct remark *to, const struct dump *dump)
{
	for (size_t i = 0; dump->no_on_cpu && i < dump->count; i++) {
		if (dump->items[i].status != G_RUNNING)
			continue;
		remark(to, "no on-CPU stacks: %s", dump->no_on_cpu->message);
		return;
	}
}

static struct error *must_check take(struct gospect_target *t,
				     const struct gospect_snapshot_options *o,
				     struct filter *filter, struct gospect_snapshot *s)
{
	struct dump_options collect = {.stack_limit = STACK_LIMIT,
				       .system = o->system,
				       .values = o->values != GOSPECT_VALUES_NONE,
				       .stop = t->cancel};
	struct error *err = target_check_cancel(t);

	if (!err)
		err = unwind_open(o->unwind, t->image, &s->frames, &collect.unwind);
	if (!err && o->values == GOSPECT_VALUES_LOCALS)
		err = program_variables_open(t, &s->variables);
	if (err)
		return err;
	collect.variables = s->variables;
	err = dump_collect(t->target, t->image, t->layout, &collect, &s->dump);
	if (err)
		return err == &error_stopped ? err : target_explain(t->target, err);
	if (s->dump->core)
		core_remark(&t->remark, s->dump);
	apply_filter(filter, s->dump);
	remark_missing(&t->remark, s->dump);
	if (s->dump->values && values_left_out(s->dump->values))
		remark(&t->remark, "the stacks are too deep: %zu frames have no values",
		       values_left_out(s->dump->values));
	unwind_remark(&t->remark, o->unwind);
	return NULL;
}

struct gospect_error *gospect_snapshot_take(struct gospect_target *t,
					    const struct gospect_snapshot_options *given,
					    struct gospect_snapshot **ret)
{
	_cleanup_(cleanup_snapshot) struct gospect_snapshot *s = calloc(1, sizeof(*s));
	struct gospect_snapshot_options options = {0};
	_cleanup_filter_ struct filter filter = {0};
	struct error *err;

	if (!s)
		return error_out(&error_no_memory);
	err = options_take(given, &options, sizeof(options), "gospect_snapshot_options");
	if (!err && options.values > GOSPECT_VALUES_LOCALS)
		err = error_format(ERROR_USAGE, "invalid values %u; see enum gospect_values",
				   options.values);
	if (!err)
		err = filter_init(&filter, options.filter);
	s->target = t;
	s->all = options.system;
	if (!err)
		target_remark_stopped(t);
	if (!err)
		err = take(t, &options, &filter, s);
	if (!err)
		*ret = take_ptr(s);
	return error_out(err);
}

size_t gospect_snapshot_count(const struct gospect_snapshot *s)
{
	return s->dump->count;
}

/* "[truncated]" stands where frames are missing. */
static struct gospect_stack *symbolize(struct arena *arena, const struct traceback *tb)
{
	struct gospect_stack *stack = stack_create(arena, tb->count + (tb->elided != 0));
	size_t n = 0;

	for (size_t i = 0; stack && i <= tb->count; i++) {
		if (tb->elided && i == tb->head)
			*stack_frame(stack, n++) =
				(struct gospect_frame){.function = "[truncated]", .file = ""};
		if (i < tb->count)
			*stack_frame(stack, n++) = frame_of(&tb->frames[i].frame, tb->frames[i].pc);
	}
	return stack;
}

static const struct gospect_stack *stack_of(struct gospect_snapshot *s,
					    const struct dump_goroutine *g)
{
	_cleanup_traceback_ struct traceback tb = {0};
	uint32_t id = dump_has_stack(g) ? g->stack : STACK_NONE;
	uint64_t *known = map_at(&s->stacks, id);
	struct stack stack = {0};

	if (!known)
		return NULL;
	if (*known)
		return (const struct gospect_stack *)(uintptr_t)*known;
	if (id != STACK_NONE) {
		stack = stacks_get(goroutine_set_stacks(s->dump->set), id);
		if (error_dropped(traceback_of(s->dump->img, stack, s->all, TRACEBACK_WHOLE, &tb)))
			return NULL;
	}
	*known = (uintptr_t)symbolize(&s->given, &tb);
	return (const struct gospect_stack *)(uintptr_t)*known;
}

/* NULL: not known. */
static const struct gospect_frame *creator_of(struct gospect_snapshot *s,
					      const struct dump_goroutine *g, bool *ret_failed)
{
	struct gospect_frame *frame;
	struct shown_frame shown;

	if (!traceback_creator(s->dump->img, g, true, &shown))
		return NULL;
	frame = given_take(&s->given, sizeof(*frame));
	*ret_failed |= !frame;
	if (frame)
		*frame = frame_of(&shown.frame, shown.pc);
	return frame;
}

static uint64_t waited(const struct dump *dump, const struct dump_goroutine *g)
{
	bool waits = g->status == G_WAITING || g->status == G_SYSCALL;

	return waits && g->wait_since && g->wait_since <= dump->taken ? dump->taken - g->wait_since
								      : 0;
}

static uint32_t flags_of(const struct gospect_snapshot *s, const struct dump_goroutine *g)
{
	struct stack stack = stacks_get(goroutine_set_stacks(s->dump->set), g->stack);

	return (g->locked ? GOSPECT_GOROUTINE_LOCKED : 0) |
	       (g->system ? GOSPECT_GOROUTINE_SYSTEM : 0) |
	       (dump_has_stack(g) ? 0 : GOSPECT_GOROUTINE_NO_STACK) |
	       (dump_has_stack(g) && stack.truncated ? GOSPECT_GOROUTINE_TRUNCATED : 0);
}

static bool give(struct gospect_snapshot *s, const struct dump_goroutine *g,
		 struct gospect_goroutine *ret)
{
	bool failed = false;

	*ret = (struct gospect_goroutine){
		.id = g->id,
		.parent = g->parent,
		.waited_ns = waited(s->dump, g),
		.state = state_of(g->status),
		.flags = flags_of(s, g),
		.thread = g->thread,
		.status = dump_state(s->dump, g),
		.wait_reason = dump_wait_reason(s->dump, g),
		.stack = stack_of(s, g),
		.created_by = creator_of(s, g, &failed),
		.start_pc = g->start_pc,
		.bubble = g->bubble,
	};
	ret->labels = labels_of(&s->given, goroutine_set_labels(s->dump->set), g->labels,
				&ret->label_count);
	return ret->stack && ret->labels && !failed;
}

static bool give_all(struct gospect_snapshot *s)
{
	size_t count = s->dump->count;
	struct gospect_goroutine *all = given_take(&s->given, (count + 1) * sizeof(*all));
	const struct gospect_goroutine **pointers =
		given_take(&s->given, (count + 1) * sizeof(*pointers));

	if (!all || !pointers)
		return false;
	for (size_t i = 0; i < count; i++) {
		if (!give(s, &s->dump->items[i], &all[i]))
			return false;
		pointers[i] = &all[i];
	}
	s->goroutines = pointers;
	return true;
}

struct gospect_error *gospect_snapshot_mark_leaks(struct gospect_snapshot *s,
						  const struct gospect_leaks *leaks)
{
	_cleanup_map_ struct map leaked = {0};
	struct error *err = leaked_ids(leaks, &leaked);

	for (size_t i = 0; !err && i < s->dump->count; i++)
		if (s->dump->items[i].status == G_WAITING &&
		    map_find(&leaked, s->dump->items[i].id))
			s->dump->items[i].status = G_LEAKED;
	return error_out(err);
}

struct gospect_error *gospect_snapshot_goroutines(struct gospect_snapshot *s,
						  const struct gospect_goroutine *const **ret,
						  size_t *ret_count)
{
	if (!s->goroutines && !give_all(s)) {
		map_release(&s->stacks);
		s->stacks = (struct map){0};
		arena_release(&s->given);
		return error_out(&error_no_memory);
	}
	*ret = s->goroutines;
	*ret_count = s->dump->count;
	return NULL;
}

/* Each goroutine is a sample of its own, without a time: its duration is unknown. */
static struct error *must_check fill_profile(const struct gospect_snapshot *s, struct profile *p)
{
	struct error *err = p ? fill_process(p, s->target) : &error_no_memory;

	if (!err)
		err = fill_unwinding(p, s->dump->set);
	for (size_t i = 0; !err && i < s->dump->count; i++) {
		const struct dump_goroutine *g = &s->dump->items[i];
		struct profile_sample sample = {.count = 1};

		err = fill_sample(p, s->dump->set, g->stack, g->labels, g->status, g->wait_reason,
				  &sample, NULL);
	}
	return err;
}

static struct error *must_check write_profile(const struct gospect_snapshot *s,
					      const struct profile_format *format, bool addresses,
					      FILE *out)
{
	const struct code code = {
		.functions = &s->target->image->functions,
		.modules = s->dump->sampler ? oncpu_sampler_modules(s->dump->sampler) : NULL,
	};
	_cleanup_profile_symbols_ struct profile_symbols *symbols = NULL;
	_cleanup_profile_ struct profile *p = profile_create();
	struct error *err = fill_profile(s, p);

	if (!err)
		err = addresses ? profile_symbolize(p, NULL, &symbols)
				: profile_symbolize_code(p, &code, NULL, &symbols);
	if (!err)
		err = fill_modules(p, code.modules);
	return err ? err : format->write(p, symbols, out);
}

/* The mappings of the file's addresses are those that a profile of it would have. */
static struct error *must_check write_raw(const struct gospect_snapshot *s, bool groups, FILE *out)
{
	_cleanup_dump_raw_ struct dump_raw raw = {.all = s->all};
	_cleanup_profile_ struct profile *p = profile_create();
	struct error *err = p ? fill_process(p, s->target) : &error_no_memory;

	if (err)
		return err;
	if (!array_reserve(&raw.mappings, &raw.capacity, p->mapping_count))
		return &error_no_memory;
	for (; raw.count < p->mapping_count; raw.count++) {
		const struct profile_mapping *m = &p->mappings[raw.count];

		raw.mappings[raw.count] =
			(struct module_range){m->start, m->end, m->offset, m->file, m->build_id};
	}
	return dump_write_raw(s->dump, &raw, groups, out);
}

static struct error *must_check check_format(enum gospect_format format, uint32_t flags)
{
	if (format != GOSPECT_TEXT && format != GOSPECT_JSON && !profile_format_of(format))
		return error_format(ERROR_USAGE,
				    "invalid snapshot format %d; see enum gospect_format", format);
	if (flags & GOSPECT_WRITE_GROUPS && format != GOSPECT_TEXT)
		return error_format(ERROR_USAGE,
				    "GOSPECT_WRITE_GROUPS needs the format GOSPECT_TEXT");
	if (flags & GOSPECT_WRITE_ADDRESSES && format != GOSPECT_TEXT && format != GOSPECT_PPROF)
		return error_format(
			ERROR_USAGE,
			"GOSPECT_WRITE_ADDRESSES needs the format GOSPECT_TEXT or GOSPECT_PPROF");
	if (flags & ~(uint32_t)(GOSPECT_WRITE_GROUPS | GOSPECT_WRITE_ADDRESSES))
		return error_format(
			ERROR_USAGE,
			"invalid write flags 0x%x; see enum gospect_snapshot_write_flags", flags);
	return NULL;
}

static struct error *must_check write_to(const struct gospect_snapshot *s,
					 enum gospect_format format, uint32_t flags, FILE *out)
{
	if (profile_format_of(format))
		return write_profile(s, profile_format_of(format), flags & GOSPECT_WRITE_ADDRESSES,
				     out);
	if (format == GOSPECT_JSON)
		return dump_write_json(s->dump, s->all, out);
	if (flags & GOSPECT_WRITE_ADDRESSES)
		return write_raw(s, flags & GOSPECT_WRITE_GROUPS, out);
	return flags & GOSPECT_WRITE_GROUPS ? dump_write_groups(s->dump, s->all, out)
					    : dump_write_text(s->dump, s->all, out);
}

struct gospect_error *gospect_snapshot_write(struct gospect_snapshot *s, enum gospect_format format,
					     uint32_t flags, struct gospect_sink sink)
{
	struct error *err = check_format(format, flags);
	struct sink_stream out;

	if (!err)
		err = sink_open(&sink, &out);
	if (!err)
		err = sink_close(&out, write_to(s, format, flags, out.file));
	return error_out(err);
}
