#include <stdlib.h>
#include <string.h>

#include "base/unit_test.h"
#include "footprint/footprint.h"

static void add(struct memory_tree *tree, uint32_t parent, const char *name, uint64_t bytes)
{
	assert_true(memory_tree_add(tree, parent, name, bytes));
}

static void make(struct memory_tree *tree)
{
	uint32_t heap, stacks;

	assert_int_equal(memory_tree_child(tree, TREE_NONE, "all"), TREE_ROOT);
	heap = memory_tree_child(tree, TREE_ROOT, "heap");
	stacks = memory_tree_child(tree, TREE_ROOT, "stacks");
	add(tree, heap, "free", 10);
	add(tree, stacks, "frames", 70);
	add(tree, heap, "objects", 20);
	add(tree, heap, "objects", 5);
	add(tree, stacks, "nothing", 0);
	add(tree, stacks, "also 70", 70);
	assert_true(memory_tree_sum(tree));
}

static void test_parents_have_the_sum_of_their_children(void **state)
{
	struct memory_tree tree = {0};
	uint32_t heap;

	make(&tree);
	assert_int_equal(tree.items[TREE_ROOT].bytes, 175);
	heap = memory_tree_find(&tree, (const char *const[]){"heap"}, 1);
	assert_int_equal(tree.items[heap].bytes, 35);
	assert_int_equal(memory_tree_find(&tree, (const char *const[]){"heap", "frames"}, 2),
			 TREE_NONE);
	memory_tree_release(&tree);
}

static void test_children_come_largest_first_and_then_by_name(void **state)
{
	static const char *const want[] = {"stacks", "also 70", "frames",
					   "heap",   "objects", "free"};
	struct memory_tree tree = {0};
	size_t n = 0;

	make(&tree);
	for (uint32_t i = tree.items[TREE_ROOT].first; i != TREE_NONE; i = tree.items[i].next) {
		assert_string_equal(memory_node_name(&tree, i), want[n++]);
		for (uint32_t k = tree.items[i].first; k != TREE_NONE; k = tree.items[k].next)
			assert_string_equal(memory_node_name(&tree, k), want[n++]);
	}
	assert_int_equal(n, 6);
	memory_tree_release(&tree);
}

/* All that is written of a footprint whose strings a hostile program chose. */
static char *written(struct error *(*write)(const struct footprint *f, FILE *out),
		     const struct footprint *f)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	assert_non_null(out);
	assert_null(write(f, out));
	fclose(out);
	return text;
}

static struct error *write_text(const struct footprint *f, FILE *out)
{
	return footprint_write_text(f, 1, out);
}

static void test_hostile_names_end_neither_a_line_nor_the_page(void **state)
{
	struct footprint f = {.exe = "/a\x1b[2J</script>", .limit = UINT64_MAX};
	char *text;

	assert_int_equal(memory_tree_child(&f.tree, TREE_NONE, "all"), TREE_ROOT);
	add(&f.tree, TREE_ROOT, "evil\n\x1b[31m</script><script>", 1ull << 60);
	assert_true(memory_tree_sum(&f.tree));
	text = written(write_text, &f);
	assert_null(strchr(text, '\x1b'));
	assert_non_null(strstr(text, "1 EiB"));
	free(text);
	text = written(footprint_write_json, &f);
	assert_null(strchr(text, '<'));
	assert_null(strchr(text, '\x1b'));
	free(text);
	text = written(footprint_write_page, &f);
	assert_null(strstr(text, "<script><"));
	free(text);
	footprint_release(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parents_have_the_sum_of_their_children),
		cmocka_unit_test(test_children_come_largest_first_and_then_by_name),
		cmocka_unit_test(test_hostile_names_end_neither_a_line_nor_the_page),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
