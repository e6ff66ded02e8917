/*
 * Prints what gospect finds out about one Go program: the release, where the numbers come from,
 * where they differ from the generated table, the runtime's variables by symbol and by rule, and,
 * with a pid, whether the process agrees. tests/rules/run compares.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "golayout/golayout.h"
#include "golayout/heap_variables.h"
#include "golayout/memory_variables.h"
#include "golayout/runtime_variables.h"

static const char *const numbers[] = {
#define FIELD(name, type, path) #name,
#define CONSTANT(name, go_name) #name,
#include "golayout/fields.def"
#undef FIELD
#undef CONSTANT
};

static void print_variables(const char *how, const struct golayout_variables *v)
{
	printf("%s allglen %#" PRIx64 "\n", how, v->allglen);
	printf("%s allgptr %#" PRIx64 "\n", how, v->allgptr);
	printf("%s allp %#" PRIx64 "\n", how, v->allp);
	printf("%s allm %#" PRIx64 "\n", how, v->allm);
	printf("%s gomaxprocs %#" PRIx64 "\n", how, v->gomaxprocs);
	printf("%s sched %#" PRIx64 "\n", how, v->sched);
	printf("%s wait_reason_strings %#" PRIx64 "\n", how, v->wait_reason_strings);
}

/* The rates of blocking are left out: not every program has the functions that lead to them. */
static void print_heap_variables(const char *how, const struct heap_variables *v)
{
	printf("%s mbuckets %#" PRIx64 "\n", how, v->mbuckets);
	printf("%s bbuckets %#" PRIx64 "\n", how, v->bbuckets);
	printf("%s xbuckets %#" PRIx64 "\n", how, v->xbuckets);
	printf("%s cycle %#" PRIx64 "\n", how, v->cycle);
	printf("%s publish_lock %#" PRIx64 "\n", how, v->publish_lock);
	printf("%s mem_rate %#" PRIx64 "\n", how, v->mem_rate);
}

static void print_memory_variables(const char *how, const struct memory_variables *v)
{
	printf("%s heap %#" PRIx64 "\n", how, v->heap);
	printf("%s stats %#" PRIx64 "\n", how, v->stats);
	printf("%s controller %#" PRIx64 "\n", how, v->controller);
	printf("%s gc_bits %#" PRIx64 "\n", how, v->gc_bits);
	printf("%s persistent_chunks %#" PRIx64 "\n", how, v->persistent_chunks);
	printf("%s bucket_table %#" PRIx64 "\n", how, v->bucket_table);
}

static struct error *print_memory(const struct image *img, const struct golayout *lay)
{
	struct memory_variables v;
	struct error *err = memory_variables_find(img, lay, &v);

	if (err)
		return err;
	print_memory_variables("found", &v);
	err = memory_variables_find_by_rules(img, lay, &v);
	if (!err)
		print_memory_variables("rule", &v);
	return err;
}

static void print_differences(const struct image *img, const struct golayout *lay)
{
	struct golayout_numbers known = *golayout_table(lay->minor, lay->patch);
	const int32_t *mine = (const int32_t *)&lay->n, *table = (const int32_t *)&known;

	golayout_adapt(&known, lay->minor, lay->patch, img->machine);

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		if (mine[i] != table[i])
			printf("differs %s %d %d\n", numbers[i], mine[i], table[i]);
}

static struct error *print_layout(struct image *img, struct target *t, struct golayout **ret)
{
	struct golayout_variables by_rules = {0};
	struct heap_variables heap;
	uint64_t start = clock_now();
	struct golayout *lay;
	struct error *err = golayout_open(img, t, &lay);

	if (err)
		return err;
	*ret = lay;
	printf("version %s\n", img->info.version);
	printf("open_us %" PRIu64 "\n", (clock_now() - start) / 1000);
	printf("numbers %s\n", lay->numbers_from == GOLAYOUT_FROM_DWARF ? "dwarf" : "table");
	printf("variables %s\n", lay->variables_from_symbols ? "symbols" : "rules");
	printf("wait_reasons %" PRIu64 "\n", lay->v.wait_reason_count);
	printf("moduledata %#" PRIx64 "\n", img->moduledata);
	print_differences(img, lay);
	print_variables("found", &lay->v);
	err = variables_find_by_rules(img, &lay->n, &by_rules);
	if (!err)
		print_variables("rule", &by_rules);
	if (!err)
		err = heap_variables_find(img, lay, &heap);
	if (!err)
		print_heap_variables("found", &heap);
	if (!err)
		err = heap_variables_find_by_rules(img, lay, &heap);
	if (!err)
		print_heap_variables("rule", &heap);
	return err ? err : print_memory(img, lay);
}

static struct error *print_validation(const struct golayout *lay, const struct image *img,
				      struct target *t)
{
	uint64_t start = clock_now();
	bool starting;
	struct error *err = golayout_validate(lay, img, t, &starting);

	if (!err)
		printf("valid_us %" PRIu64 "\n", (clock_now() - start) / 1000);
	return starting ? error_wrap(err, "it is only starting") : err;
}

static struct error *probe(const char *path, pid_t pid)
{
	_cleanup_target_ struct target *t = NULL;
	_cleanup_image_ struct image *img = NULL;
	_cleanup_golayout_ struct golayout *lay = NULL;
	struct error *err = pid ? target_open_process(pid, &t) : NULL;

	if (!err)
		err = pid ? image_open(t, NULL, &img) : image_open_file(path, &img);
	if (!err)
		err = print_layout(img, t, &lay);
	if (!err && pid)
		err = print_validation(lay, img, t);
	return err;
}

int main(int argc, char **argv)
{
	_cleanup_error_ struct error *err = NULL;
	bool live = argc == 3 && !strcmp(argv[1], "-p");

	if (!live && argc != 2) {
		fprintf(stderr, "usage: rules_probe FILE | -p PID\n");
		return 2;
	}
	err = probe(argv[1], live ? atoi(argv[2]) : 0);
	if (err)
		fprintf(stderr, "rules_probe: %s\n", err->message);
	return err ? 1 : 0;
}
