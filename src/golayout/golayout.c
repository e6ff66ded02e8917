/* Decides which field offsets and constants apply to a binary. */
#include "golayout/golayout.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "golayout/runtime_variables.h"
#include "golayout/view.h"
#include "image/dwarf_types.h"

#define MAX_SIZE 65536 /* of the runtime's other structures; above it a number is nonsense */

/* The FIELDs of fields.def in its order, then the CONSTANTs: as in struct golayout_numbers. */
struct field {
	const char *type;
	const char *path;
	bool is_constant;
};

static const struct field fields[] = {
#define FIELD(name, go_type, go_path) {go_type, go_path, false},
#define CONSTANT(name, go_name) {go_name, "", true},
#include "golayout/fields.def"
#undef FIELD
#undef CONSTANT
};
#define FIELDS ARRAY_SIZE(fields)
_Static_assert(sizeof(struct golayout_numbers) == FIELDS * sizeof(int32_t),
	       "struct golayout_numbers is an array of int32_t");

/* Experiments that leave every field of fields.def where it is: measured,
 * docs/internals/go-runtime.md. */
static const char *const harmless_experiments[] = {
	"aliastypeparams",
	"arenas",
	"boringcrypto",
	"cacheprog",
	"cgocheck2",
	"fieldtrack",
	"goroutineleakprofile",
	"greenteagc",
	"heapminimum512kib",
	"jsonv2",
	"loopvar",
	"mapsplitgroup",
	"newinliner",
	"noaliastypeparams",
	"noallocheaders",
	"nocoverageredesign",
	"nodwarf5",
	"nogreenteagc",
	"nojsonv2",
	"norandomizedheapbase64",
	"nosizespecializedmalloc",
	"noswissmap",
	"nosynchashtriemap",
	"nounified",
	"pagetrace",
	"preemptibleloops",
	"rangefunc",
	"runtimefreegc",
	"runtimesecret",
	"simd",
	"sizespecializedmalloc",
	"synctest",
	"unified",
};

static bool is_harmless(const char *experiment, size_t n)
{
	for (size_t i = 0; i < ARRAY_SIZE(harmless_experiments); i++)
		if (!strncmp(harmless_experiments[i], experiment, n) && !harmless_experiments[i][n])
			return true;
	return false;
}

/* "go1.24.4 X:boringcrypto,arenas": whether one of them may move fields. */
static bool moves_fields(const char *version)
{
	const char *at = strstr(version, "X:");

	for (at = at ? at + 2 : ""; *at && *at != ' ';) {
		size_t n = strcspn(at, ", ");

		if (!is_harmless(at, n))
			return true;
		at += n + (at[n] == ',');
	}
	return false;
}

/* 4 of "go1.24.4 (vendor)"; 0 without a patch release. */
static int patch_of(const char *version)
{
	const char *minor = strchr(version, '.');
	const char *patch = minor ? minor + 1 + strspn(minor + 1, "0123456789") : "";

	return *patch == '.' && isdigit((unsigned char)patch[1]) ? (int)strtol(patch + 1, NULL, 10)
								 : 0;
}

static struct error *check_version(const struct image *img)
{
	const char *name = elf_file_name(img->elf), *version = img->info.version;
	int minor = img->info.minor;

	if (!*version)
		return error_format(
			ERROR_UNSUPPORTED,
			"%s is a Go program without a Go version: its build information was "
			"removed; build it again and keep .go.buildinfo",
			name);
	if (minor < 0)
		return error_format(
			ERROR_UNSUPPORTED,
			"%s was built with Go version \"%s\", which is not a release; gospect "
			"supports the releases of Go 1.%d to 1.%d; build it with one of them",
			name, version, GOLAYOUT_MIN_MINOR, GOLAYOUT_MAX_MINOR);
	if (minor < GOLAYOUT_MIN_MINOR)
		return error_format(
			ERROR_UNSUPPORTED,
			"%s was built with %s, which is too old; gospect supports Go 1.%d to "
			"1.%d; build it with one of them",
			name, version, GOLAYOUT_MIN_MINOR, GOLAYOUT_MAX_MINOR);
	if (minor > GOLAYOUT_MAX_MINOR)
		return error_format(
			ERROR_UNSUPPORTED,
			"%s was built with %s, which is too new; this gospect supports Go 1.%d to "
			"1.%d; install a newer gospect",
			name, version, GOLAYOUT_MIN_MINOR, GOLAYOUT_MAX_MINOR);
	return NULL;
}

/* The first field of this type in fields.def, or the first constant. */
static size_t first_of(const char *type)
{
	size_t i = 0;

	while (i < FIELDS && !fields[i].is_constant && strcmp(fields[i].type, type))
		i++;
	return i;
}

/* Asks the DWARF of the binary, or of its unstripped file. Broken DWARF counts as none. */
static bool ask_dwarf(const struct image *img, struct dwarf_query *queries, size_t count)
{
	const struct elf_file *files[] = {img->elf, img->unstripped};
	bool has_dwarf = false;

	for (size_t i = 0; i < count; i++)
		queries[i] = (struct dwarf_query){.type = fields[i].type, .path = fields[i].path};
	for (size_t i = 0; i < ARRAY_SIZE(files) && files[i] && !has_dwarf; i++)
		if (error_dropped(dwarf_answer(files[i], queries, count, &has_dwarf)))
			has_dwarf = false;
	return has_dwarf && queries[0].has_type;
}

/* More than any Go has by far, and little enough to read of each goroutine. */
static int32_t limit_of_type(const char *type)
{
	if (!strcmp(type, "runtime.g"))
		return GOLAYOUT_G_LIMIT;
	if (!strcmp(type, "runtime.m"))
		return GOLAYOUT_M_LIMIT;
	if (!strcmp(type, "runtime.sudog") || !strcmp(type, "runtime.hchan") ||
	    !strcmp(type, "runtime.pollDesc") || !strcmp(type, "runtime.timer"))
		return GOLAYOUT_WAIT_LIMIT;
	if (!strcmp(type, "runtime.mspan") || !strcmp(type, "runtime.special"))
		return GOLAYOUT_SPAN_LIMIT;
	if (!strcmp(type, "runtime.mheap"))
		return GOLAYOUT_HEAP_LIMIT;
	if (!strcmp(type, "runtime.heapArena"))
		return GOLAYOUT_ARENA_LIMIT;
	return MAX_SIZE;
}

/* The size of the structure that a field is in, as far as fields.def asks for it. */
static int32_t size_of_type(const int32_t *numbers, const char *type)
{
	for (size_t i = 0; i < FIELDS; i++)
		if (!*fields[i].path && !fields[i].is_constant && !strcmp(fields[i].type, type))
			return numbers[i];
	return limit_of_type(type);
}

static struct error *must_check refuse_number(const struct image *img, const struct dwarf_query *q)
{
	return error_format(
		ERROR_UNSUPPORTED,
		"the DWARF of %s is wrong: it gives %s %s the offset %lld, above the limit of %d; rebuild the program, or strip its DWARF",
		elf_file_name(img->elf), q->type, *q->path ? q->path : "(its end)",
		(long long)q->value, limit_of_type(q->type));
}

static struct error *take_answers(const struct image *img, const struct dwarf_query *queries,
				  size_t count, int32_t *numbers)
{
	for (size_t i = 0; i < count; i++) {
		const struct dwarf_query *q = &queries[i];
		bool known = numbers[i] != GOLAYOUT_ABSENT;

		if (!q->has_type)
			continue;
		if (q->found != known)
			return error_format(
				ERROR_UNSUPPORTED,
				"%s was built with %s, but its DWARF has %s %s.%s: its Go "
				"toolchain is not that release; build it with an official Go "
				"release",
				elf_file_name(img->elf), img->info.version, known ? "no" : "a",
				q->type, q->path);
		if (q->found && (q->value < 0 || q->value > limit_of_type(q->type)))
			return refuse_number(img, q);
		if (q->found)
			numbers[i] = (int32_t)q->value;
	}
	return NULL;
}

/* A caller that reads a whole structure takes its fields from the copy: each must lie within it. */
static struct error *check_bounds(const struct image *img, const int32_t *numbers)
{
	for (size_t i = 0; i < FIELDS; i++) {
		int32_t size = size_of_type(numbers, fields[i].type);

		if (fields[i].is_constant || !*fields[i].path || numbers[i] == GOLAYOUT_ABSENT ||
		    numbers[i] <= size - (int32_t)sizeof(uint64_t))
			continue;
		return error_format(
			ERROR_UNSUPPORTED,
			"the DWARF of %s is wrong: it puts %s.%s at offset %d, outside the "
			"structure of %d bytes; rebuild the program, or strip its DWARF",
			elf_file_name(img->elf), fields[i].type, fields[i].path, numbers[i], size);
	}
	return NULL;
}

static struct error *must_check refuse_experiment(const struct image *img)
{
	return error_format(
		ERROR_UNSUPPORTED,
		"%s was built with %s and a GOEXPERIMENT, which may move fields of the runtime; "
		"it has no DWARF to tell where; name an unstripped file of the same build "
		"with --exe",
		elf_file_name(img->elf), img->info.version);
}

/*
 * DWARF decides. If its G, M and P agree with the table of the release, the table decides the other
 * structures. In a large program they come 10 MB later in DWARF, which would take 40 ms to unpack.
 * An experiment might move these alone.
 */
static struct error *decide_numbers(const struct image *img, struct golayout *lay)
{
	struct golayout_numbers table = *golayout_table(lay->minor, lay->patch);
	bool moves = img->info.experiment && moves_fields(img->info.version);
	struct dwarf_query queries[FIELDS];
	size_t all = first_of(""), early = first_of("runtime.schedt"), count = moves ? all : early;
	struct error *err = NULL;

	golayout_adapt(&table, lay->minor, lay->patch, img->machine);
	lay->n = table;
	lay->numbers_from = GOLAYOUT_FROM_TABLE;
	if (!ask_dwarf(img, queries, count))
		return moves ? refuse_experiment(img) : NULL;
	lay->numbers_from = GOLAYOUT_FROM_DWARF;
	err = take_answers(img, queries, count, (int32_t *)&lay->n);
	if (!err && count < all && memcmp(&lay->n, &table, sizeof(table)) &&
	    ask_dwarf(img, queries, all))
		err = take_answers(img, queries, all, (int32_t *)&lay->n);
	return err ? err : check_bounds(img, (int32_t *)&lay->n);
}

static struct error *load_functions(struct image *img, struct target *t,
				    const struct golayout_numbers *n)
{
	struct image_layout layout = {
		.moduledata_gofunc =
			n->moduledata_gofunc == GOLAYOUT_ABSENT ? 0 : n->moduledata_gofunc,
		.wrapper_id = n->func_id_wrapper,
		.moduledata_next = n->moduledata_next,
	};

	return image_load_functions(img, t, &layout);
}

struct error *golayout_open(struct image *img, struct target *t, struct golayout **ret)
{
	_cleanup_golayout_ struct golayout *lay = NULL;
	struct error *err = check_version(img);

	if (err)
		return err;
	lay = calloc(1, sizeof(*lay));
	if (!lay)
		return &error_no_memory;
	lay->minor = img->info.minor;
	lay->patch = patch_of(img->info.version);
	err = decide_numbers(img, lay);
	if (!err)
		err = load_functions(img, t, &lay->n);
	if (!err)
		err = variables_find(img, lay);
	if (!err)
		*ret = take_ptr(lay);
	return err;
}

void golayout_close(struct golayout *lay)
{
	free(lay);
}
