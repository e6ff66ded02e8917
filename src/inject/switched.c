#include "inject/switched.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "golayout/view.h"

#define MAX_MS 100000

static struct error *must_check make_room(struct switched *s)
{
	s->ranges = malloc((s->count + 1) * sizeof(s->ranges[0]));
	s->ok = malloc(s->count + 1);
	s->callers = malloc((s->count + 1) * sizeof(s->callers[0]));
	s->g_bytes = malloc((s->count + 1) * s->g_size);
	return s->ranges && s->ok && s->callers && s->g_bytes ? NULL : &error_no_memory;
}

struct error *switched_prepare(struct target *t, const struct golayout *lay,
			       const struct agent_range *systemstack_switch, struct switched *s)
{
	struct error *err;
	uint64_t m;

	switched_release(s);
	s->systemstack_switch = *systemstack_switch;
	s->g_size = golayout_g_bytes(&lay->n);
	err = target_read_u64(t, lay->v.allm, &m);
	while (!err && m && s->count < MAX_MS) {
		if (!array_reserve(&s->items, &s->capacity, s->count + 1))
			return &error_no_memory;
		s->items[s->count++] = (struct switched_m){.address = m};
		if (error_dropped(target_read_u64(t, m + lay->n.m_alllink, &m)))
			break; /* it has ended just now */
	}
	return err ? err : make_room(s);
}

static struct g_view curg_of(const struct switched *s, const struct golayout *lay, size_t i)
{
	return (struct g_view){&lay->n, s->g_bytes + i * s->g_size};
}

/* What cannot be read is 0. */
static struct error *must_check read_goroutines(struct target *t, const struct golayout *lay,
						struct switched *s)
{
	struct error *err;
	size_t n = 0;

	for (size_t i = 0; i < s->count; i++) {
		struct switched_m *m = &s->items[i];

		*m = (struct switched_m){.address = m->address};
		s->ranges[i] = (struct target_range){m->address + lay->n.m_curg, sizeof(m->curg),
						     &m->curg};
	}
	err = target_read_each(t, s->ranges, s->count, s->ok);
	if (err)
		return err;
	for (size_t i = 0; i < s->count; i++)
		if (s->items[i].curg)
			s->ranges[n++] = (struct target_range){s->items[i].curg, s->g_size,
							       s->g_bytes + i * s->g_size};
		else
			memset(s->g_bytes + i * s->g_size, 0, s->g_size);
	err = target_read_each(t, s->ranges, n, s->ok);
	for (size_t i = 0; !err && i < n; i++)
		if (!s->ok[i])
			memset(s->ranges[i].buffer, 0, s->g_size);
	return err;
}

/*
 * The stack pointer that systemstack() has left is 0 when it is back. Who called it: from Go 1.21
 * on it has a frame and pretends to be behind the beginning of systemstack_switch(), before that it
 * has none.
 */
static uint64_t caller_at(const struct switched *s, struct g_view g)
{
	uint64_t pc = g_view_sched_pc(g);
	uint64_t sp = g_view_sched_sp(g);

	if (!sp || pc - s->systemstack_switch.start >= s->systemstack_switch.size)
		return 0;
	return pc == s->systemstack_switch.start ? sp : g_view_sched_bp(g) + 8;
}

struct error *switched_read(struct target *t, const struct golayout *lay, struct switched *s)
{
	struct error *err = read_goroutines(t, lay, s);

	s->caller_count = 0;
	for (size_t i = 0; !err && i < s->count; i++) {
		uint64_t at = caller_at(s, curg_of(s, lay, i));

		if (at && error_dropped(target_read_u64(t, at, &s->items[i].caller)))
			s->items[i].caller = 0;
		if (s->items[i].caller)
			s->callers[s->caller_count++] = &s->items[i];
	}
	return err;
}

/* Those that have a caller are few, but when many threads are in C. */
void switched_is_back(const struct golayout *lay, struct switched *s, uint64_t sp)
{
	for (size_t i = 0; i < s->caller_count; i++) {
		struct switched_m *m = s->callers[i];
		struct g_view g = curg_of(s, lay, m - s->items);

		if (m->caller && sp >= g_view_stack_lo(g) && sp < g_view_stack_hi(g))
			m->caller = 0;
	}
}

void switched_release(struct switched *s)
{
	free(s->items);
	free(s->ranges);
	free(s->ok);
	free(s->callers);
	free(s->g_bytes);
	*s = (struct switched){0};
}
