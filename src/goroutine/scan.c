/*
 * One scan of some goroutines: all their headers in one read, then the stacks of those that
 * changed.
 */
#include <string.h>

#include "base/array.h"
#include "goroutine/set.h"

static bool add_pending_read(struct goroutine_set *set, uint32_t index, const uint8_t *header,
			     const struct goroutine_record *now, bool late)
{
	struct pending_read *c;

	if (!array_reserve(&set->pending_reads, &set->pending_read_capacity,
			   set->pending_read_count + 1))
		return false;
	c = &set->pending_reads[set->pending_read_count++];
	*c = (struct pending_read){.index = index, .header = header, .now = *now, .late = late};
	if (goroutine_is_alive(now))
		pending_read_take_header(set, c, header);
	c->first_header = header;
	c->first = c->now;
	c->first_start_pc = c->start_pc;
	return true;
}

/*
 * A goroutine that moved in the last pass is probably moving now, and would be gone by the time
 * gospect reads its stack. So header and stack are read together, later. That is decided before the
 * header shows a move: the instant of a sample must not depend on the goroutine's state then.
 */
static bool look_late(struct goroutine_set *set, uint32_t index, const uint8_t *header,
		      const struct goroutine_record *now)
{
	return set->options.keep_state && set->records[index].flags & GOROUTINE_MOVED &&
	       add_pending_read(set, index, header, now, true);
}

/*
 * A g is never freed: after a burst of goroutines the dead remain, and the runtime reuses the
 * latest first. A unit in which all have been dead for some scans is skipped, up to PAUSE_MASK
 * times, at random, so that units come back at different times. A goroutine that starts there is
 * seen that much later. The count of goids reveals a burst.
 */
enum { DEAD_LOOKS = 2, PAUSE_MASK = 63 };

static void note_life(struct goroutine_unit *unit, bool alive)
{
	unit->dead_looks = alive ? 0 : unit->dead_looks + (unit->dead_looks < UINT16_MAX);
	if (unit->dead_looks >= DEAD_LOOKS)
		unit->pause = hash_u64((uint64_t)unit->first << 16 | unit->dead_looks) & PAUSE_MASK;
}

static bool leave_out(const struct goroutine_set *set, struct goroutine_unit *unit)
{
	unit->left_out = set->options.keep_state && unit->pause;
	unit->pause -= unit->left_out;
	return unit->left_out;
}

static bool look(struct goroutine_set *set, struct goroutine_unit *unit, const uint8_t *headers)
{
	bool alive = false;

	for (uint32_t i = unit->first; i < unit->first + unit->count; i++) {
		const uint8_t *header = headers + set->offsets[i];
		struct goroutine_record now = record_of(set, header);

		alive |= goroutine_is_alive(&now);
		if (look_late(set, i, header, &now))
			continue;
		if (record_unchanged(set, &set->records[i], &now))
			continue;
		if (!goroutine_is_alive(&now) && !goroutine_is_alive(&set->records[i]))
			continue;
		if (!add_pending_read(set, i, header, &now, false))
			return false;
	}
	set->stats.scans += unit->count;
	if (set->options.keep_state)
		note_life(unit, alive);
	return true;
}

static size_t bytes_at_once(const struct goroutine_set *set)
{
	size_t given = set->options.read_bytes;

	return given && given < PLAN_CALL_BYTES ? given : PLAN_CALL_BYTES;
}

/* The ranges of as many units as fit one call. */
static bool gather(struct goroutine_set *set, const uint32_t *units, size_t count, size_t *ret)
{
	size_t n;

	plan_reset(&set->batch);
	for (n = 0; n < count; n++) {
		struct goroutine_unit *u = &set->units[units[n]];

		if (!u->pause && set->batch.count &&
		    (set->batch.count + u->range_count > TARGET_MAX_RANGES ||
		     set->batch.bytes + u->bytes > bytes_at_once(set)))
			break;
		if (leave_out(set, u))
			continue;
		if (!array_reserve(&set->batch.ranges, &set->batch.capacity,
				   set->batch.count + u->range_count))
			return false;
		memcpy(set->batch.ranges + set->batch.count, set->plan.ranges + u->first_range,
		       u->range_count * sizeof(*set->batch.ranges));
		set->batch.count += u->range_count;
		set->batch.bytes += u->bytes;
	}
	*ret = n;
	return array_reserve(&set->headers, &set->headers_capacity, set->batch.bytes);
}

/* The headers of as many units as fit one call, in set->headers; *ret_bytes of them were read. */
static struct error *read_headers(struct goroutine_set *set, const uint32_t *units, size_t count,
				  size_t *ret_units, size_t *ret_bytes)
{
	if (!gather(set, units, count, ret_units))
		return &error_no_memory;
	return plan_read(&set->batch, set->t, set->headers, ret_bytes);
}

static size_t count_unit(struct goroutine_set *set, const struct goroutine_unit *unit,
			 const uint8_t *headers)
{
	size_t alive = 0;

	for (uint32_t i = unit->first; i < unit->first + unit->count; i++) {
		const uint8_t *header = headers + set->offsets[i];
		struct goroutine_record now = record_of(set, header);
		uint64_t start_pc = g_view_startpc(header_view(set, header));

		alive += goroutine_is_alive(&now) &&
			 !goroutine_set_system_flag(set, start_pc, STACK_NONE);
	}
	return alive;
}

struct error *goroutine_set_count_alive(struct goroutine_set *set, size_t *ret)
{
	const struct goroutine_unit *units;
	size_t count, read, bytes, alive = 0;
	struct error *err = goroutine_set_refresh(set);

	if (!err)
		err = goroutine_set_plan(set, PLAN_CALL_BYTES / 2, &units, &count);
	for (uint32_t i = 0; !err && i < count; i++) {
		err = read_headers(set, &i, 1, &read, &bytes);
		if (!err && bytes == units[i].bytes)
			alive += count_unit(set, &units[i], set->headers);
	}
	if (!err)
		*ret = alive;
	return err;
}

static uint64_t locate_in_unit(struct goroutine_set *set, const struct goroutine_unit *unit,
			       const uint8_t *headers, uint64_t goid)
{
	for (uint32_t i = unit->first; i < unit->first + unit->count; i++) {
		struct goroutine_record now = record_of(set, headers + set->offsets[i]);

		if (now.goid == goid && goroutine_is_alive(&now))
			return set->g[i];
	}
	return 0;
}

struct error *goroutine_set_locate(struct goroutine_set *set, size_t unit_bytes, uint64_t goid,
				   uint64_t *ret)
{
	const struct goroutine_unit *units;
	size_t count, read, bytes;
	struct error *err = goroutine_set_refresh(set);
	uint64_t found = 0;

	if (!err)
		err = goroutine_set_plan(set, unit_bytes, &units, &count);
	for (uint32_t i = 0; !err && !found && i < count; i++) {
		err = read_headers(set, &i, 1, &read, &bytes);
		if (!err && bytes == units[i].bytes)
			found = locate_in_unit(set, &units[i], set->headers, goid);
	}
	if (!err)
		*ret = found;
	return err;
}

struct error *goroutine_set_scan(struct goroutine_set *set, const uint32_t *units, size_t count,
				 size_t *ret_scanned)
{
	size_t scanned, bytes, at = 0;
	struct error *err;

	err = read_headers(set, units, count, &scanned, &bytes);
	if (err)
		return err;
	set->pending_read_count = 0;
	for (size_t i = 0; i < scanned; i++) {
		struct goroutine_unit *u = &set->units[units[i]];

		if (u->left_out)
			continue;
		if (at + u->bytes > bytes)
			set->stats.faults++;
		else if (!look(set, u, set->headers + at))
			return &error_no_memory;
		at += u->bytes;
	}
	err = pending_reads_commit(set);
	if (!err)
		*ret_scanned = scanned;
	return err;
}
