#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/cleanup.h"
#include "base/unit_test.h"
#include "retained/dominators.h"

#define MOST 64u

/* A graph as a matrix: small enough to try what happens without a node. */
struct matrix {
	uint32_t count;
	bool edge[MOST][MOST];
};

static struct flow_graph graph_of(const struct matrix *m)
{
	struct flow_graph g = {.count = m->count};

	g.first = malloc((m->count + 1) * sizeof(*g.first));
	assert_non_null(g.first);
	for (uint32_t i = 0; i < m->count; i++) {
		size_t before = g.edge_count;

		for (uint32_t k = 0; k < m->count; k++) {
			if (!m->edge[i][k])
				continue;
			assert_true(flow_graph_reserve(&g, g.edge_count + 1));
			g.edges[g.edge_count++] = k;
		}
		g.first[i] = g.edge_count > before ? (uint32_t)before : FLOW_NONE;
		if (g.edge_count > before)
			g.edges[g.edge_count - 1] |= FLOW_LAST;
	}
	return g;
}

static void reach(const struct matrix *m, uint32_t without, bool *reached)
{
	uint32_t pending[MOST], count = 0;

	memset(reached, 0, MOST);
	if (without == 0)
		return;
	reached[0] = true;
	pending[count++] = 0;
	while (count) {
		uint32_t from = pending[--count];

		for (uint32_t to = 0; to < m->count; to++) {
			if (!m->edge[from][to] || reached[to] || to == without)
				continue;
			reached[to] = true;
			pending[count++] = to;
		}
	}
}

/* By the definition: A dominates B if B is not reached without A. */
static void check(const struct matrix *m)
{
	_cleanup_dominators_ struct dominators d = {0};
	struct flow_graph g = graph_of(m);
	_cleanup_free_ uint32_t *numbers = NULL;
	static bool reached[MOST], dominates[MOST][MOST];

	assert_null(dominators_find(&g, &d));
	flow_graph_release(&g);
	assert_null(dominators_numbers(&d, m->count, &numbers));
	reach(m, MOST, reached);
	for (uint32_t a = 0; a < m->count; a++) {
		static bool left[MOST];

		reach(m, a, left);
		for (uint32_t b = 0; b < m->count; b++)
			dominates[a][b] = reached[a] && reached[b] && !left[b];
		assert_int_equal(numbers[a] != FLOW_NONE, reached[a]);
	}
	for (uint32_t i = 0; i < d.count; i++) {
		uint32_t node = d.nodes.items[i];
		bool found[MOST] = {false};

		for (uint32_t k = i;; k = d.immediate.items[k]) {
			assert_true(k == i || k < i);
			found[d.nodes.items[k]] = true;
			if (!k)
				break;
		}
		for (uint32_t a = 0; a < m->count; a++)
			assert_int_equal(found[a], dominates[a][node]);
	}
}

static void edges(struct matrix *m, const uint8_t *pairs, size_t count)
{
	for (size_t i = 0; i < count; i++)
		m->edge[pairs[2 * i]][pairs[2 * i + 1]] = true;
}

static void test_the_graph_of_the_paper(void **state)
{
	/* Lengauer and Tarjan, figure 1: R=0 A=1 B=2 ... L=12 */
	static const uint8_t pairs[] = {0, 1, 0, 2,  0, 3,  1,  4, 2,  1, 2,  4, 2,  5,
					3, 6, 3, 7,  4, 12, 5,  8, 6,  9, 7,  9, 7,  10,
					8, 5, 8, 11, 9, 11, 10, 9, 11, 9, 11, 0, 12, 8};
	static const uint8_t immediate[] = {0, 0, 0, 0, 0, 0, 3, 3, 0, 0, 7, 0, 4};
	_cleanup_dominators_ struct dominators d = {0};
	_cleanup_free_ uint32_t *numbers = NULL;
	struct matrix m = {.count = 13};
	struct flow_graph g;

	edges(&m, pairs, sizeof(pairs) / 2);
	check(&m);
	g = graph_of(&m);
	assert_null(dominators_find(&g, &d));
	flow_graph_release(&g);
	assert_null(dominators_numbers(&d, 13, &numbers));
	for (uint32_t node = 1; node < 13; node++)
		assert_int_equal(d.nodes.items[d.immediate.items[numbers[node]]], immediate[node]);
}

static void test_random_graphs_are_as_without_each_node(void **state)
{
	srandom(4711);
	for (int round = 0; round < 1500; round++) {
		struct matrix m = {.count = 2 + (uint32_t)random() % (MOST - 2)};
		uint32_t count = m.count * (1 + (uint32_t)random() % 3);

		for (uint32_t i = 0; i < count; i++)
			m.edge[random() % m.count][random() % m.count] = true;
		/* Long ways, with jumps back and ahead. */
		for (uint32_t i = 1; i < m.count && round % 3 == 0; i++)
			m.edge[i - 1][i] = true;
		check(&m);
	}
}

/* It is in a file meanwhile: an edge at its end leads to where it led. */
static void test_a_large_graph_can_be_put_aside(void **state)
{
	enum { NODES = 3 << 20 };
	struct flow_graph g = {.count = NODES, .first = flow_numbers(NODES, 0xff)};

	assert_non_null(g.first);
	assert_true(flow_graph_reserve(&g, 2));
	g.first[0] = 0;
	g.first[NODES - 1] = 1;
	g.edges[g.edge_count++] = (NODES - 1) | FLOW_LAST;
	g.edges[g.edge_count++] = 4711 | FLOW_LAST;
	flow_graph_put_aside(&g);
	assert_null(g.first);
	assert_null(g.edges);
	assert_null(flow_graph_load(&g));
	assert_int_equal(g.first[0], 0);
	assert_int_equal(g.first[1], FLOW_NONE);
	assert_int_equal(g.first[NODES - 1], 1);
	assert_int_equal(g.edges[1], 4711 | FLOW_LAST);
	flow_graph_release(&g);
}

/* A node has edges to the two below it in a heap, and to any other. */
static struct flow_graph large_graph(uint32_t nodes)
{
	struct flow_graph g = {.count = nodes, .first = flow_numbers(nodes, 0xff)};

	assert_non_null(g.first);
	assert_true(flow_graph_reserve(&g, (size_t)nodes * 3));
	srandom(4711);
	for (uint32_t i = 0; i < nodes; i++) {
		g.first[i] = (uint32_t)g.edge_count;
		for (uint32_t to = 2 * i + 1; to <= 2 * i + 2 && to < nodes; to++)
			g.edges[g.edge_count++] = to;
		g.edges[g.edge_count++] = (uint32_t)random() % nodes | FLOW_LAST;
	}
	return g;
}

/* As retained.c does it. */
static void solve(uint32_t nodes, struct number_array *shortest, struct dominators *d)
{
	struct flow_graph g = large_graph(nodes);

	flow_graph_put_aside(&g);
	assert_null(flow_graph_load(&g));
	assert_null(flow_graph_shortest(&g, shortest));
	assert_null(flow_graph_load(&g));
	assert_null(dominators_find(&g, d));
	flow_graph_release(&g);
}

/* `most`: bytes of a file, of which an array has more. */
static void solve_without_files(rlim_t most, uint32_t nodes, struct number_array *shortest,
				struct dominators *d)
{
	const struct rlimit limit = {most, RLIM_INFINITY};
	struct rlimit before;

	getrlimit(RLIMIT_FSIZE, &before);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	solve(nodes, shortest, d);
	setrlimit(RLIMIT_FSIZE, &before);
	assert_false(shortest->mapped || d->nodes.mapped || d->immediate.mapped);
}

/* With files, where there can be none, and where the disk is full while they are written. */
static void test_files_change_no_result(void **state)
{
	enum { NODES = 9 << 18 };
	_cleanup_number_array_ struct number_array kept = {0};
	_cleanup_dominators_ struct dominators filed = {0};

	solve(NODES, &kept, &filed);
	assert_true(kept.mapped && filed.nodes.mapped && filed.immediate.mapped);
	assert_int_equal(filed.count, NODES);
	for (rlim_t most = 0; most <= 5u << 20; most += 5u << 20) {
		_cleanup_number_array_ struct number_array here = {0};
		_cleanup_dominators_ struct dominators plain = {0};

		solve_without_files(most, NODES, &here, &plain);
		assert_int_equal(plain.count, NODES);
		for (uint32_t i = 0; i < NODES; i++) {
			assert_true(number_array_pass(&filed.nodes, i) == plain.nodes.items[i]);
			assert_true(number_array_pass(&filed.immediate, i) ==
				    plain.immediate.items[i]);
			assert_true(number_array_pass(&kept, i) == here.items[i]);
		}
	}
}

/* What a node dominates, itself included, by going up from each. */
static void test_each_place_is_followed_by_what_it_dominates(void **state)
{
	srandom(4711);
	for (int round = 0; round < 300; round++) {
		_cleanup_dominators_ struct dominators d = {0};
		_cleanup_number_array_ struct number_array places = {0}, sizes = {0};
		struct matrix m = {.count = 2 + (uint32_t)random() % (MOST - 2)};
		bool taken[MOST] = {false};
		struct flow_graph g;

		for (uint32_t i = 0; i < 2 * m.count; i++)
			m.edge[random() % m.count][random() % m.count] = true;
		g = graph_of(&m);
		assert_null(dominators_find(&g, &d));
		flow_graph_release(&g);
		assert_null(dominators_places(&d, &places, &sizes));
		for (uint32_t i = 0; i < d.count; i++) {
			uint32_t dominated = 0;

			assert_false(taken[places.items[i]]);
			taken[places.items[i]] = true;
			for (uint32_t k = 0; k < d.count; k++) {
				uint32_t up = k;

				while (up && up != i)
					up = d.immediate.items[up];
				dominated += up == i;
				assert_int_equal(up == i,
						 places.items[k] >= places.items[i] &&
							 places.items[k] <
								 places.items[i] + sizes.items[i]);
			}
			assert_int_equal(sizes.items[i], dominated);
		}
	}
}

static void test_the_way_to_a_node_is_a_shortest_one(void **state)
{
	static const uint8_t pairs[] = {0, 1, 1, 2, 2, 3, 3, 4, 1, 4, 4, 0};
	_cleanup_number_array_ struct number_array before = {0};
	struct matrix m = {.count = 5};
	struct flow_graph g;

	edges(&m, pairs, sizeof(pairs) / 2);
	g = graph_of(&m);
	assert_null(flow_graph_shortest(&g, &before));
	assert_int_equal(before.items[4], 1);
	assert_int_equal(before.items[3], 2);
	assert_int_equal(before.items[0], FLOW_NONE);
	flow_graph_release(&g);
}

/* A list of a million objects, each with a pointer back to the first: deep, and no recursion. */
static void test_a_long_list_takes_no_time(void **state)
{
	enum { LENGTH = 1000000 };
	_cleanup_dominators_ struct dominators d = {0};
	struct flow_graph g = {.count = LENGTH};

	g.first = malloc((LENGTH + 1) * sizeof(*g.first));
	assert_non_null(g.first);
	assert_true(flow_graph_reserve(&g, 2 * LENGTH));
	for (uint32_t i = 0; i < LENGTH; i++) {
		g.first[i] = (uint32_t)g.edge_count;
		if (i + 1 < LENGTH)
			g.edges[g.edge_count++] = i + 1;
		g.edges[g.edge_count++] = 1 | FLOW_LAST;
	}
	assert_null(dominators_find(&g, &d));
	flow_graph_release(&g);
	assert_int_equal(d.count, LENGTH);
	assert_int_equal(d.immediate.items[LENGTH - 1], LENGTH - 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_graph_of_the_paper),
		cmocka_unit_test(test_random_graphs_are_as_without_each_node),
		cmocka_unit_test(test_a_large_graph_can_be_put_aside),
		cmocka_unit_test(test_files_change_no_result),
		cmocka_unit_test(test_each_place_is_followed_by_what_it_dominates),
		cmocka_unit_test(test_the_way_to_a_node_is_a_shortest_one),
		cmocka_unit_test(test_a_long_list_takes_no_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
