#include "inject/on_systemstack.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

#define MAX_MS 100000

static struct error *must_check make_room(struct on_systemstack *s)
{
	s->ranges = malloc((s->count + 1) * sizeof(s->ranges[0]));
	s->ok = malloc(s->count + 1);
	s->callers = malloc((s->count + 1) * sizeof(s->callers[0]));
	s->g_bytes = malloc((s->count + 1) * s->g_size);
	return s->ranges && s->ok && s->callers && s->g_bytes ? NULL : &error_no_memory;
}

struct error *on_systemstack_prepare(struct target *t, const struct runtime_words *words,
				     const struct agent_range *systemstack_switch,
				     struct on_systemstack *s)
{
	uint64_t m, earlier = 0; /* an M of the list; if it occurs again, the list is a circle */
	size_t next_earlier = 1;
	struct error *err;

	on_systemstack_release(s);
	s->systemstack_switch = *systemstack_switch;
	s->g_size = runtime_words_g_bytes(words);
	err = target_read_u64(t, words->allm, &m);
	while (!err && m && m != earlier && s->count < MAX_MS) {
		if (s->count == next_earlier) {
			earlier = m;
			next_earlier *= 2;
		}
		if (!array_reserve(&s->items, &s->capacity, s->count + 1))
			return &error_no_memory;
		s->items[s->count++] = (struct on_systemstack_m){.address = m};
		if (error_dropped(target_read_u64(t, m + words->m_alllink, &m)))
			break; /* it has ended just now */
	}
	return err ? err : make_room(s);
}

static const uint8_t *curg_of(const struct on_systemstack *s, size_t i)
{
	return s->g_bytes + i * s->g_size;
}

/* Each tracer thread reads a part of the stacks. */
struct part_reads {
	struct target *t;
	const struct runtime_words *words;
	struct on_systemstack *s;
	size_t parts;
};

static struct error *must_check read_curgs(struct part_reads *r, size_t from, size_t to)
{
	struct on_systemstack *s = r->s;

	for (size_t i = from; i < to; i++) {
		struct on_systemstack_m *m = &s->items[i];

		*m = (struct on_systemstack_m){.address = m->address};
		s->ranges[i] = (struct target_range){m->address + r->words->m_curg, sizeof(m->curg),
						     &m->curg};
	}
	return target_read_each(r->t, s->ranges + from, to - from, s->ok + from);
}

static struct error *must_check read_goroutines(struct part_reads *r, size_t from, size_t to)
{
	struct on_systemstack *s = r->s;
	struct error *err;
	size_t n = from;

	for (size_t i = from; i < to; i++) {
		uint8_t *bytes = s->g_bytes + i * s->g_size;

		memset(bytes, 0, s->g_size);
		if (s->items[i].curg)
			s->ranges[n++] = (struct target_range){s->items[i].curg, s->g_size, bytes};
	}
	err = target_read_each(r->t, s->ranges + from, n - from, s->ok + from);
	for (size_t i = from; !err && i < n; i++)
		if (!s->ok[i])
			memset(s->ranges[i].buffer, 0, s->g_size);
	return err;
}

/* Unreadable memory counts as 0. */
static struct error *must_check read_part(void *arg, unsigned int part)
{
	struct part_reads *r = arg;
	size_t from = r->s->count * part / r->parts, to = r->s->count * (part + 1) / r->parts;
	struct error *err = read_curgs(r, from, to);

	return err ? err : read_goroutines(r, from, to);
}

/*
 * The stack pointer that systemstack() has left is 0 when it is back. Its caller: from Go 1.21 on
 * systemstack() has a frame and pretends to be behind the beginning of systemstack_switch(), before
 * that it has none.
 */
static uint64_t caller_at(const struct on_systemstack *s, const struct runtime_words *words,
			  const uint8_t *g)
{
	uint64_t pc = runtime_word(g, words->g_sched_pc);
	uint64_t sp = runtime_word(g, words->g_sched_sp);

	if (!sp || pc - s->systemstack_switch.start >= s->systemstack_switch.size)
		return 0;
	return pc == s->systemstack_switch.start ? sp : runtime_word(g, words->g_sched_bp) + 8;
}

struct error *on_systemstack_read(struct target *t, const struct runtime_words *words,
				  struct helpers *helpers, struct on_systemstack *s)
{
	struct part_reads reads = {t, words, s, helpers_count(helpers) + 1};
	struct error *err = helpers_share(helpers, read_part, &reads);

	s->caller_count = 0;
	for (size_t i = 0; !err && i < s->count; i++) {
		uint64_t at = caller_at(s, words, curg_of(s, i));

		if (at && error_dropped(target_read_u64(t, at, &s->items[i].caller)))
			s->items[i].caller = 0;
		if (s->items[i].caller)
			s->callers[s->caller_count++] = &s->items[i];
	}
	return err;
}

/* Those that have a caller are few, but when many threads are in C. */
void on_systemstack_returned(const struct runtime_words *words, struct on_systemstack *s,
			     uint64_t sp)
{
	for (size_t i = 0; i < s->caller_count; i++) {
		struct on_systemstack_m *m = s->callers[i];
		const uint8_t *g = curg_of(s, m - s->items);

		if (m->caller && sp >= runtime_word(g, words->g_stack_lo) &&
		    sp < runtime_word(g, words->g_stack_hi))
			m->caller = 0;
	}
}

void on_systemstack_release(struct on_systemstack *s)
{
	free(s->items);
	free(s->ranges);
	free(s->ok);
	free(s->callers);
	free(s->g_bytes);
	*s = (struct on_systemstack){0};
}
