/*
 * Runtime variables in a stripped binary: one small function of the runtime refers to each, in a
 * known order. The functions are known by name, which strip does not remove.
 *
 * The order is that of the statements in the runtime's source; tests/rules holds these rules
 * against the symbol tables of all versions, architectures and build modes.
 * docs/internals/go-runtime.md names the source of each.
 */
#include "golayout/runtime_variables.h"

#include <stddef.h>
#include <string.h>

#include "base/array.h"
#include "image/data_refs.h"

#define MAX_WAIT_REASONS 128
#define MAX_WAIT_REASON_LENGTH 64

struct variable {
	const char *symbol;
	size_t member; /* in struct golayout_variables */
	/* The rule: the index-th reference, from 0 on, of the function, counted from the one behind
	 * &sched.lock on if so. */
	const char *function;
	unsigned int index;
	bool behind_lock;
};

#define MEMBER(name) offsetof(struct golayout_variables, name)

static const struct variable variables[] = {
	{"runtime.allglen", MEMBER(allglen), "runtime.forEachGRace", 0, false},
	{"runtime.allgptr", MEMBER(allgptr), "runtime.forEachGRace", 1, false},
	{"runtime.allp", MEMBER(allp), "runtime.preemptall", 0, false},
	{"runtime.gomaxprocs", MEMBER(gomaxprocs), "runtime.procresize", 0, false},
	/* &sched.lock; the lock's offset is taken off. */
	{"runtime.sched", MEMBER(sched), "runtime.mcommoninit", 0, false},
	/* The list is walked under the lock. */
	{"runtime.allm", MEMBER(allm), "runtime.mexit", 0, true},
	/* Reference 0 is the string for an unknown reason. */
	{"runtime.waitReasonStrings", MEMBER(wait_reason_strings), "runtime.waitReason.String", 1,
	 false},
};

static uint64_t *member_of(struct golayout_variables *v, const struct variable *var)
{
	return (uint64_t *)((char *)v + var->member);
}

static bool find_by_symbols(const struct image *img, struct golayout_variables *v)
{
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
		uint64_t address = image_symbol(img, variables[i].symbol);

		if (!address)
			return false;
		*member_of(v, &variables[i]) = address;
	}
	return true;
}

static bool apply_rule(const struct data_refs *refs, const struct variable *var, uint64_t lock,
		       uint64_t *ret)
{
	size_t i = 0;

	while (var->behind_lock && i < refs->count && refs->items[i] != lock)
		i++;
	i += var->index + var->behind_lock;
	if (i >= refs->count)
		return false;
	*ret = refs->items[i];
	return true;
}

static struct error *find_one(const struct image *img, const struct variable *var, uint64_t lock,
			      uint64_t *ret)
{
	_cleanup_data_refs_ struct data_refs refs = {0};
	struct error *err = data_refs_of(img, var->function, &refs);

	if (!err && !apply_rule(&refs, var, lock, ret))
		err = error_format(
			ERROR_UNSUPPORTED,
			"cannot find a variable of the Go runtime: %s refers to %zu addresses, and none matches; report the Go version and how the program was built",
			var->function, refs.count);
	if (err && err->code != ERROR_FAILED && err->code != ERROR_UNSUPPORTED)
		return err;
	if (!err)
		return NULL;
	err->code = ERROR_UNSUPPORTED;
	return error_wrap(
		err,
		"%s was built with %s and is stripped, and its code does not lead to %s; name an "
		"unstripped file of the same build with --exe",
		elf_file_name(img->elf), img->info.version, var->symbol);
}

struct error *variables_find_by_rules(const struct image *img, const struct golayout_numbers *n,
				      struct golayout_variables *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
		/* ret->sched is &sched.lock until the end. */
		struct error *err =
			find_one(img, &variables[i], ret->sched, member_of(ret, &variables[i]));

		if (err)
			return err;
	}
	ret->sched -= n->sched_lock;
	return NULL;
}

/* A wait reason's text: a few printable characters somewhere in the binary. */
static bool is_reason(const struct image *img, const uint64_t string[2])
{
	const uint8_t *text = string[1] && string[1] <= MAX_WAIT_REASON_LENGTH
				      ? image_bytes(img, string[0], string[1])
				      : NULL;

	for (size_t i = 0; text && i < string[1]; i++)
		if (text[i] < ' ' || text[i] > '~')
			return false;
	return text;
}

/*
 * The table is an array of Go strings {pointer, length}; entry 0 is the empty string. Only symbols
 * have its size, so it ends at the first invalid string. Bytes behind it may look like strings: a
 * few extra entries do no harm, because the runtime never uses their numbers.
 */
static uint64_t count_wait_reasons(const struct image *img, uint64_t table)
{
	uint64_t strings[MAX_WAIT_REASONS][2], in_file = table - img->bias;
	size_t size, count = 1, n;
	const uint8_t *bytes = elf_file_rest(img->elf, in_file, &size);

	n = size / sizeof(strings[0]) < MAX_WAIT_REASONS ? size / sizeof(strings[0])
							 : MAX_WAIT_REASONS;
	if (!n)
		return 0;
	memcpy(strings, bytes, n * sizeof(strings[0]));
	elf_file_relocate(img->elf, in_file, strings, n * sizeof(strings[0]), img->bias);
	if (strings[0][1])
		return 0;
	while (count < n && is_reason(img, strings[count]))
		count++;
	return count;
}

struct error *variables_find(const struct image *img, struct golayout *lay)
{
	struct error *err = NULL;

	lay->variables_from_symbols = find_by_symbols(img, &lay->v);
	if (!lay->variables_from_symbols)
		err = variables_find_by_rules(img, &lay->n, &lay->v);
	if (err)
		return err;
	lay->v.wait_reason_count = count_wait_reasons(img, lay->v.wait_reason_strings);
	if (lay->v.wait_reason_count < 2)
		return error_format(
			ERROR_UNSUPPORTED,
			"%s was built with %s, but it has no table of wait reasons at 0x%llx; "
			"report the Go version and how the program was built",
			elf_file_name(img->elf), img->info.version,
			(unsigned long long)lay->v.wait_reason_strings);
	return NULL;
}
