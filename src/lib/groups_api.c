/* A profile's time, grouped by a property of its samples, as the library hands it out. */
#include "base/cleanup.h"
#include "lib/error_api.h"
#include "lib/profile_handle.h"
#include "profile/groups.h"

_Static_assert((int)GOSPECT_GROUP_ROOT == (int)GROUP_ROOT &&
		       (int)GOSPECT_GROUP_FUNCTION == (int)GROUP_FUNC &&
		       (int)GOSPECT_GROUP_STATE == (int)GROUP_STATE &&
		       (int)GOSPECT_GROUP_WAIT == (int)GROUP_WAIT &&
		       (int)GOSPECT_GROUP_LABEL == (int)GROUP_LABEL,
	       "one is handed on as the other");

static bool give_waits(const struct profile *p, const struct group *from, struct arena *arena,
		       struct gospect_group *ret)
{
	size_t count = from->wait_count;
	struct gospect_wait *waits = given_take(arena, (count + 1) * sizeof(*waits));
	const struct gospect_wait **pointers = given_take(arena, (count + 1) * sizeof(*pointers));

	if (!waits || !pointers)
		return false;
	for (size_t i = 0; i < count; i++) {
		waits[i].reason = intern_get(&p->strings, from->waits[i].wait);
		waits[i].ns = from->waits[i].ns;
		waits[i].waited_ns = 0;
		pointers[i] = &waits[i];
	}
	ret->wait_count = count;
	ret->waits = pointers;
	return true;
}

static bool give_group(const struct profile *p, const struct groups *all, const struct group *from,
		       struct arena *arena, struct gospect_group *ret)
{
	*ret = (struct gospect_group){
		.name = from->name,
		.count = from->count,
		.total_ns = from->total_ns,
		.cpu_ns = from->cpu_ns,
		.self_ns = from->self_ns,
		.all_ns = all->total_ns,
		.all_count = all->total_count,
	};
	for (int i = 0; i < PROFILE_STATES; i++)
		ret->state_ns[i] = from->state_ns[i];
	return give_waits(p, from, arena, ret);
}

struct gospect_error *
gospect_profile_groups(const struct gospect_profile *p, enum gospect_group_key key,
		       const char *label,
		       int (*group)(void *arg, const struct gospect_group *group), void *arg)
{
	_cleanup_groups_ struct groups groups = {0};
	struct error *err =
		groups_make(p->profile, p->symbols, (enum group_key)key, label, &groups);
	bool ended = false;

	for (size_t i = 0; !err && !ended && i < groups.count; i++) {
		struct arena arena = {0};
		struct gospect_group given;

		if (give_group(p->profile, &groups, &groups.items[i], &arena, &given))
			ended = group(arg, &given);
		else
			err = &error_no_memory;
		arena_release(&arena);
	}
	return error_out(err);
}

size_t gospect_profile_keep_label(struct gospect_profile *p, const char *label, const char *value)
{
	profile_keep_label(p->profile, label, value);
	/* Memory handed out before refers to samples that may be gone. */
	arena_release(&p->given);
	p->samples = NULL;
	profile_describe(p, p->info.has_functions);
	return p->profile->count;
}
