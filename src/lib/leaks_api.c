#include <gospect/leaks.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "leaks/leaks.h"
#include "lib/error_api.h"
#include "lib/leaked.h"
#include "lib/options.h"
#include "lib/sink.h"
#include "lib/target_handle.h"

struct gospect_leaks {
	struct leaks *leaks;
	struct gospect_leaks_info info;
};

void gospect_leaks_destroy(struct gospect_leaks *l)
{
	if (!l)
		return;
	leaks_destroy(l->leaks);
	free(l);
}

static void cleanup_leaks_handle(struct gospect_leaks **l)
{
	gospect_leaks_destroy(*l);
}

static void say_what_is_missing(const struct gospect_target *t, const struct leaks *l)
{
	if (l->waits->truncated)
		remark(&t->remark,
		       "more waits than gospect's limits permit: no goroutine counts as leaked for "
		       "certain");
	if (l->unread && target_core(t->target))
		remark(&t->remark,
		       "the core file lacks %llu bytes of the heap: a goroutine counts as leaked even if a pointer in these bytes leads to what it waits for",
		       (unsigned long long)l->unread);
	if (l->runs)
		remark(&t->remark,
		       "goroutine %llu ran at each of %zu looks, and its registers are not known: no goroutine counts as leaked for certain; try again, or use --exact or a core file",
		       (unsigned long long)l->runs, l->looks);
}

static struct error *must_check find(struct gospect_target *t, struct gospect_leaks *l)
{
	const struct leaks_options how = {.stop = t->cancel};
	struct error *err = target_check_cancel(t);

	if (err)
		return err;
	target_remark_stopped(t);
	err = leaks_find(t->target, t->image, t->layout, &how, &l->leaks);
	if (err)
		return err == &error_stopped ? err : target_explain(t->target, err);
	say_what_is_missing(t, l->leaks);
	l->info = (struct gospect_leaks_info){
		.leaked = l->leaks->certain,
		.suspected = l->leaks->suspected,
		.groups = l->leaks->group_count,
		.looks = l->leaks->looks,
		.heap_bytes = l->leaks->heap_bytes,
		.reachable_bytes = l->leaks->reachable_bytes,
	};
	return NULL;
}

struct error *leaked_ids(const struct gospect_leaks *l, struct map *ret)
{
	for (size_t i = 0; i < l->leaks->group_count; i++) {
		const struct leak_group *group = &l->leaks->groups[i];

		for (size_t k = 0; group->is_certain && k < group->count; k++) {
			uint64_t id = l->leaks->waits->goroutines[group->goroutines[k]].id;
			uint64_t *known = map_at(ret, id);

			if (!known)
				return &error_no_memory;
			*known = 1;
		}
	}
	return NULL;
}

struct error *leaked_find(struct gospect_target *t, struct map *ret)
{
	_cleanup_(cleanup_leaks_handle) struct gospect_leaks *l = calloc(1, sizeof(*l));
	struct error *err = l ? find(t, l) : &error_no_memory;

	return err ? err : leaked_ids(l, ret);
}

struct gospect_error *gospect_leaks_find(struct gospect_target *t,
					 const struct gospect_leaks_options *given,
					 struct gospect_leaks **ret)
{
	_cleanup_(cleanup_leaks_handle) struct gospect_leaks *l = calloc(1, sizeof(*l));
	struct gospect_leaks_options options = {0};
	struct error *err;

	if (!l)
		return error_out(&error_no_memory);
	err = options_take(given, &options, sizeof(options), "gospect_leaks_options");
	if (!err)
		err = find(t, l);
	if (!err)
		*ret = take_ptr(l);
	return error_out(err);
}

void gospect_leaks_compare(struct gospect_leaks *later, const struct gospect_leaks *earlier)
{
	leaks_compare(later->leaks, earlier->leaks);
	later->info.suspected = later->leaks->suspected;
	later->info.groups = later->leaks->group_count;
}

const struct gospect_leaks_info *gospect_leaks_info(const struct gospect_leaks *l)
{
	return &l->info;
}

struct gospect_error *gospect_leaks_write(const struct gospect_leaks *l, enum gospect_format format,
					  struct gospect_sink sink)
{
	struct sink_stream out;
	struct error *err;

	if (format != GOSPECT_TEXT && format != GOSPECT_JSON)
		return error_out(error_format(
			ERROR_USAGE,
			"invalid format %d for leaks; use GOSPECT_TEXT or GOSPECT_JSON", format));
	err = sink_open(&sink, &out);
	if (err)
		return error_out(err);
	if (format == GOSPECT_TEXT)
		leaks_write_text(l->leaks, out.file);
	else
		leaks_write_json(l->leaks, out.file);
	return error_out(sink_close(&out, NULL));
}
