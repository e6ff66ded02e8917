/*
 * In all versions and architectures (tests/rules/run checks it):
 *
 *   mProf_FlushLocked   its last reference is mbuckets
 *   mProf_Flush         its last reference is the lock that it releases
 *   stkbucket           links the new bucket into mbuckets, xbuckets or bbuckets, in this order
 *   allocmcache         its last reference is MemProfileRate, from which the first sample is drawn
 *   mProf_Free          begins with mProfCycle; before Go 1.19 mProf_FlushLocked does, with mProf
 */
#include "golayout/heap_variables.h"

#include <stddef.h>

#include "base/array.h"
#include "image/data_refs.h"

#define FIRST_WITH_ATOMIC_CYCLE 19

/* Which of a function's references is the variable. */
enum rule {
	RULE_FIRST,
	RULE_LAST,
	RULE_BEHIND,     /* the next different one after mbuckets */
	RULE_TWO_BEHIND, /* the one after that */
};

struct variable {
	const char *symbol; /* NULL: the symbol has another address */
	size_t member;
	const char *functions[2]; /* the second, where the program lacks the first */
	enum rule rule;
	int from, to; /* minor versions that have it */
	bool is_optional;
};

#define MEMBER(name) offsetof(struct heap_variables, name)
#define ANY GOLAYOUT_MIN_MINOR, GOLAYOUT_MAX_MINOR

static const struct variable variables[] = {
	{"runtime.mbuckets",
	 MEMBER(mbuckets),
	 {"runtime.mProf_FlushLocked"},
	 RULE_LAST,
	 ANY,
	 false},
	{"runtime.xbuckets", MEMBER(xbuckets), {"runtime.stkbucket"}, RULE_BEHIND, ANY, false},
	{"runtime.bbuckets", MEMBER(bbuckets), {"runtime.stkbucket"}, RULE_TWO_BEHIND, ANY, false},
	{"runtime.mProf",
	 MEMBER(cycle),
	 {"runtime.mProf_FlushLocked"},
	 RULE_FIRST,
	 GOLAYOUT_MIN_MINOR,
	 FIRST_WITH_ATOMIC_CYCLE - 1,
	 false},
	{"runtime.mProfCycle",
	 MEMBER(cycle),
	 {"runtime.mProf_Free"},
	 RULE_FIRST,
	 FIRST_WITH_ATOMIC_CYCLE,
	 GOLAYOUT_MAX_MINOR,
	 false},
	{"runtime.proflock",
	 MEMBER(publish_lock),
	 {"runtime.mProf_Flush"},
	 RULE_LAST,
	 GOLAYOUT_MIN_MINOR,
	 FIRST_WITH_ATOMIC_CYCLE - 1,
	 false},
	{"runtime.profMemActiveLock",
	 MEMBER(publish_lock),
	 {"runtime.mProf_Flush"},
	 RULE_LAST,
	 FIRST_WITH_ATOMIC_CYCLE,
	 GOLAYOUT_MAX_MINOR,
	 false},
	{"runtime.MemProfileRate",
	 MEMBER(mem_rate),
	 {"runtime.allocmcache"},
	 RULE_LAST,
	 ANY,
	 false},
	{"runtime.blockprofilerate",
	 MEMBER(block_rate),
	 {"runtime.blockevent"},
	 RULE_FIRST,
	 ANY,
	 true},
	{"runtime.mutexprofilerate",
	 MEMBER(mutex_rate),
	 {"runtime.mutexevent", "sync.event"},
	 RULE_FIRST,
	 ANY,
	 true},
	/* A program without these functions never computed it. */
	{NULL,
	 MEMBER(ticks),
	 {"runtime.ticksPerSecond", "runtime.tickspersecond"},
	 RULE_FIRST,
	 ANY,
	 true},
};

static uint64_t *member_of(struct heap_variables *v, const struct variable *var)
{
	return (uint64_t *)((char *)v + var->member);
}

/* The n-th distinct reference after that one; 0: none. */
static uint64_t behind(const struct data_refs *refs, uint64_t address, size_t n)
{
	size_t i = 0;

	while (i < refs->count && refs->items[i] != address)
		i++;
	for (; n && i + 1 < refs->count; i++)
		n -= refs->items[i + 1] != refs->items[i];
	return n || i >= refs->count ? 0 : refs->items[i];
}

static uint64_t apply(const struct data_refs *refs, const struct variable *var,
		      const struct heap_variables *v)
{
	if (!refs->count)
		return 0;
	switch (var->rule) {
	case RULE_FIRST:
		return refs->items[0];
	case RULE_LAST:
		return refs->items[refs->count - 1];
	default:
		return behind(refs, v->mbuckets, var->rule == RULE_BEHIND ? 1 : 2);
	}
}

static struct error *must_check find_one(const struct image *img, const struct variable *var,
					 struct heap_variables *v)
{
	uint64_t *ret = member_of(v, var);

	for (size_t i = 0; i < ARRAY_SIZE(var->functions) && var->functions[i] && !*ret; i++) {
		_cleanup_data_refs_ struct data_refs refs = {0};
		struct error *err = data_refs_of(img, var->functions[i], &refs);

		if (!err)
			*ret = apply(&refs, var, v);
		if (err && err->code != ERROR_FAILED && err->code != ERROR_CORRUPT)
			return err;
		error_destroy(err);
	}
	return NULL;
}

static bool is_of(const struct variable *var, const struct golayout *lay)
{
	return lay->minor >= var->from && lay->minor <= var->to;
}

struct error *heap_variables_find_by_rules(const struct image *img, const struct golayout *lay,
					   struct heap_variables *ret)
{
	struct error *err = NULL;

	*ret = (struct heap_variables){0};
	for (size_t i = 0; i < ARRAY_SIZE(variables) && !err; i++)
		if (is_of(&variables[i], lay))
			err = find_one(img, &variables[i], ret);
	return err;
}

struct error *heap_variables_find(const struct image *img, const struct golayout *lay,
				  struct heap_variables *ret)
{
	struct error *err = NULL;

	*ret = (struct heap_variables){0};
	for (size_t i = 0; i < ARRAY_SIZE(variables) && !err; i++) {
		const struct variable *var = &variables[i];
		uint64_t *at = member_of(ret, var);

		if (!is_of(var, lay))
			continue;
		*at = var->symbol ? image_symbol(img, var->symbol) : 0;
		if (!*at)
			err = find_one(img, var, ret);
		if (!err && !*at && !var->is_optional)
			err = error_format(
				ERROR_UNSUPPORTED,
				"cannot find %s in %s, which was built with %s; name an unstripped "
				"file of the same build with --exe",
				var->symbol, elf_file_name(img->elf), img->info.version);
	}
	return err;
}
