#include "profile/timeline.h"

#include <stdlib.h>

#include "base/cleanup.h"

static uint64_t key_of(uint32_t row, uint32_t column)
{
	return (uint64_t)row << 32 | column;
}

/* Adds `by` to a cell. Negative differences wrap around. */
static bool change(struct map *cells, uint32_t row, uint64_t column, uint64_t by)
{
	uint64_t *cell = by ? map_at(cells, key_of(row, column)) : NULL;

	if (cell)
		*cell += by;
	return cell || !by;
}

/*
 * Adds a cell to columns of twice the width. The sum of columns 2j and 2j+1 exceeds that of the two
 * columns before by the differences at 2j-1, at 2j (twice) and at 2j+1.
 */
static bool add_wider(struct map *cells, const struct map_slot *slot)
{
	uint32_t row = slot->key >> 32, column = (uint32_t)slot->key;
	uint64_t by = slot->value;

	if (column % 2 == 0)
		return change(cells, row, column / 2, 2 * by);
	return change(cells, row, column / 2, by) && change(cells, row, column / 2 + 1, by);
}

/* Drops cells of 0; `wider`: also doubles the width of columns. */
static struct error *rebuild(struct timeline *t, bool wider)
{
	_cleanup_map_ struct map cells = {0};
	struct map swap = t->cells;

	for (size_t i = 0; i < t->cells.capacity; i++) {
		const struct map_slot *slot = &t->cells.slots[i];
		bool ok;

		if (slot->key == MAP_NO_KEY || !slot->value)
			continue;
		ok = wider ? add_wider(&cells, slot)
			   : change(&cells, slot->key >> 32, (uint32_t)slot->key, slot->value);
		if (!ok)
			return &error_no_memory;
	}
	t->cells = cells;
	cells = swap;
	if (wider) {
		t->width_ns *= 2;
		t->columns = (t->columns + 1) / 2;
	}
	return NULL;
}

/* Widens columns until `end` fits, and there is room for the cells of another sample. */
static struct error *make_room(struct timeline *t, uint64_t end)
{
	struct error *err = NULL;

	t->width_ns = t->width_ns ? t->width_ns : TIMELINE_WIDTH_NS;
	while (!err && end > TIMELINE_MOST_COLUMNS * t->width_ns)
		err = rebuild(t, true);
	if (!err && t->cells.count + 4 > TIMELINE_MOST_CELLS)
		err = rebuild(t, false);
	/* That did not suffice: columns are widened until half of the cells are free. */
	while (!err && t->cells.count > TIMELINE_MOST_CELLS / 2 && t->columns > 1)
		err = rebuild(t, true);
	return err;
}

struct error *timeline_add(struct timeline *t, uint32_t row, uint64_t begin, uint64_t end,
			   uint64_t ns)
{
	struct error *err = NULL;
	uint64_t first, last;
	uint64_t head, body, tail;
	double rate;

	if (!ns || ns >= 1ull << 62 || end >= 1ull << 62 || begin > end)
		return NULL;
	end += begin == end;
	err = make_room(t, end);
	if (err)
		return err;
	first = begin / t->width_ns;
	last = (end - 1) / t->width_ns;
	if (t->columns <= last)
		t->columns = last + 1;
	if (first == last)
		return change(&t->cells, row, first, ns) && change(&t->cells, row, first + 1, -ns)
			       ? NULL
			       : &error_no_memory;
	rate = (double)ns / (double)(end - begin);
	head = rate * (double)((first + 1) * t->width_ns - begin);
	body = last > first + 1 ? rate * (double)t->width_ns : 0;
	tail = rate * (double)(end - last * t->width_ns);
	return change(&t->cells, row, first, head) &&
			       change(&t->cells, row, first + 1, body - head) &&
			       change(&t->cells, row, last, tail - body) &&
			       change(&t->cells, row, last + 1, -tail)
		       ? NULL
		       : &error_no_memory;
}

static struct error *make_as_wide(struct timeline *a, struct timeline *b)
{
	struct error *err = NULL;

	a->width_ns = a->width_ns ? a->width_ns : b->width_ns;
	while (!err && a->width_ns != b->width_ns)
		err = rebuild(a->width_ns < b->width_ns ? a : b, true);
	return err;
}

struct error *timeline_add_all(struct timeline *t, struct timeline *from, const uint32_t *rows,
			       size_t count)
{
	struct error *err = from->width_ns ? make_as_wide(t, from) : NULL;

	if (err)
		return err;
	for (size_t i = 0; i < from->cells.capacity; i++) {
		const struct map_slot *slot = &from->cells.slots[i];
		uint32_t row = slot->key >> 32;

		if (slot->key == MAP_NO_KEY || row >= count || rows[row] == TIMELINE_NO_ROW)
			continue;
		if (!change(&t->cells, rows[row], (uint32_t)slot->key, slot->value))
			return &error_no_memory;
	}
	if (t->columns < from->columns)
		t->columns = from->columns;
	return NULL;
}

size_t timeline_step_count(const struct timeline *t)
{
	size_t count = 0;

	for (size_t i = 0; i < t->cells.capacity; i++)
		count += t->cells.slots[i].key != MAP_NO_KEY && t->cells.slots[i].value;
	return count;
}

struct error *timeline_steps(const struct timeline *t, struct timeline_step **ret,
			     size_t *ret_count)
{
	_cleanup_free_ uint64_t *keys = map_sorted_keys(&t->cells);
	_cleanup_free_ struct timeline_step *steps = calloc(t->cells.count + 1, sizeof(*steps));
	size_t count = 0;
	uint64_t sum = 0;

	if (!steps || (t->cells.count && !keys))
		return &error_no_memory;
	for (size_t i = 0; i < t->cells.count; i++) {
		uint32_t row = keys[i] >> 32;
		uint64_t by = *map_find(&t->cells, keys[i]);

		if (!i || row != (uint32_t)(keys[i - 1] >> 32))
			sum = 0;
		sum += by;
		if (by)
			steps[count++] = (struct timeline_step){row, (uint32_t)keys[i],
								(int64_t)sum > 0 ? sum : 0};
	}
	*ret = take_ptr(steps);
	*ret_count = count;
	return NULL;
}

struct error *timeline_add_steps(struct timeline *t, uint64_t width_ns,
				 const struct timeline_step *steps, size_t count, size_t rows)
{
	struct error *err = NULL;

	for (size_t i = 0; !err && width_ns && width_ns <= 1ull << 48 && i + 1 < count; i++) {
		const struct timeline_step *s = &steps[i];

		if (s[1].row != s->row || s[1].column <= s->column || s->row >= rows ||
		    s[1].column > TIMELINE_MOST_COLUMNS || s->ns > 1ull << 48)
			continue;
		err = timeline_add(t, s->row, s->column * width_ns, s[1].column * width_ns,
				   s->ns * (s[1].column - s->column));
	}
	return err;
}

/* A copy with columns so wide that it can begin so much later. */
static struct error *copy_for(const struct timeline *from, uint64_t later_ns, struct timeline *ret)
{
	struct error *err = NULL;

	*ret = (struct timeline){.width_ns = from->width_ns, .columns = from->columns};
	for (size_t i = 0; i < from->cells.capacity; i++) {
		const struct map_slot *slot = &from->cells.slots[i];

		if (slot->key != MAP_NO_KEY &&
		    !change(&ret->cells, slot->key >> 32, (uint32_t)slot->key, slot->value))
			return &error_no_memory;
	}
	while (!err && ret->columns + later_ns / ret->width_ns + 1 > TIMELINE_MOST_COLUMNS)
		err = rebuild(ret, true);
	return err;
}

static struct error *add_shifted(struct timeline *t, const struct timeline *from, uint32_t first,
				 uint32_t columns)
{
	for (size_t i = 0; i < from->cells.capacity; i++) {
		const struct map_slot *slot = &from->cells.slots[i];

		if (slot->key != MAP_NO_KEY && !change(&t->cells, first + (slot->key >> 32),
						       (uint32_t)slot->key + columns, slot->value))
			return &error_no_memory;
	}
	if (from->cells.count && t->columns < from->columns + columns)
		t->columns = from->columns + columns;
	return NULL;
}

struct error *timeline_add_later(struct timeline *t, const struct timeline *from, uint32_t first,
				 uint64_t later_ns)
{
	_cleanup_timeline_ struct timeline copy = {0};
	struct error *err;

	if (!from->width_ns || later_ns >= 1ull << 62)
		return NULL;
	err = copy_for(from, later_ns, &copy);
	if (!err)
		err = make_as_wide(t, &copy);
	if (!err)
		err = add_shifted(t, &copy, first, (later_ns + copy.width_ns / 2) / copy.width_ns);
	return err ? err : make_room(t, 0);
}

void timeline_release(struct timeline *t)
{
	map_release(&t->cells);
	*t = (struct timeline){0};
}
