#include "top/top_model.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/map.h"

/* Keys without samples are forgotten when they outnumber the others, and exceed this number. */
#define MANY_KEYS 4096

enum top_state top_state_of(enum goroutine_status status)
{
	switch (status) {
	case G_RUNNING:
	case G_COPYSTACK:
		return TOP_RUNNING;
	case G_RUNNABLE:
	case G_PREEMPTED:
		return TOP_RUNNABLE;
	case G_SYSCALL:
		return TOP_SYSCALL;
	default:
		return TOP_WAITING;
	}
}

const char *top_state_name(enum top_state state)
{
	static const char *const names[] = {"running", "runnable", "syscall", "waiting"};

	return names[state];
}

void top_model_init(struct top_model *m, unsigned int window)
{
	*m = (struct top_model){.window = window};
}

void top_model_release(struct top_model *m)
{
	for (size_t i = 0; i < TOP_INTERVALS; i++)
		free(m->intervals[i].items);
	free(m->keys);
	free(m->totals);
	free(m->first_items);
	map_release(&m->index);
	*m = (struct top_model){0};
}

static uint64_t key_hash(const struct top_key *k)
{
	uint64_t hash = hash_u64((uint64_t)k->stack << 32 | k->labels);

	return hash_u64(hash + ((uint64_t)k->creator << 16 | k->status << 8 | k->wait_reason)) >> 1;
}

static bool key_same(const struct top_key *a, const struct top_key *b)
{
	return a->stack == b->stack && a->labels == b->labels && a->creator == b->creator &&
	       a->status == b->status && a->wait_reason == b->wait_reason;
}

/* 0: no memory. */
static uint32_t key_id(struct top_model *m, const struct top_key *key)
{
	for (uint64_t hash = key_hash(key);; hash++) {
		uint64_t *place = map_at(&m->index, hash);

		if (!place)
			return 0;
		if (*place && key_same(&m->keys[*place], key))
			return *place;
		if (*place)
			continue;
		if (!array_reserve(&m->keys, &m->key_capacity, m->key_count + 2) ||
		    !array_reserve(&m->totals, &m->total_capacity, m->key_count + 2))
			return 0;
		m->keys[++m->key_count] = *key;
		m->totals[m->key_count] = (struct top_total){0};
		return *place = m->key_count;
	}
}

static struct top_interval *interval_at(struct top_model *m, uint64_t number)
{
	return &m->intervals[number % TOP_INTERVALS];
}

const struct top_interval *top_model_interval(const struct top_model *m, size_t back)
{
	if (back >= TOP_INTERVALS || back >= m->interval_count)
		return NULL;
	return &m->intervals[(m->interval_count - 1 - back) % TOP_INTERVALS];
}

size_t top_model_intervals(const struct top_model *m)
{
	return m->interval_count < TOP_INTERVALS ? m->interval_count : TOP_INTERVALS;
}

double top_model_state(const struct top_model *m, enum top_state state)
{
	uint64_t ns = 0;

	for (uint64_t i = m->first; i < m->interval_count; i++)
		ns += m->intervals[i % TOP_INTERVALS].states[state];
	return top_model_mean(m, ns);
}

double top_model_mean(const struct top_model *m, uint64_t ns)
{
	return m->window_ns ? (double)ns / m->window_ns : 0;
}

static void enter_window(struct top_model *m, const struct top_interval *interval)
{
	m->window_ns += interval->ns;
	for (size_t i = 0; i < interval->count; i++) {
		struct top_total *t = &m->totals[interval->items[i].key];

		t->ns += interval->items[i].total.ns;
		t->cpu_ns += interval->items[i].total.cpu_ns;
		t->count += interval->items[i].total.count;
	}
}

static void leave_window(struct top_model *m, const struct top_interval *interval)
{
	m->window_ns -= interval->ns;
	for (size_t i = 0; i < interval->count; i++) {
		struct top_total *t = &m->totals[interval->items[i].key];

		t->ns -= interval->items[i].total.ns;
		t->cpu_ns -= interval->items[i].total.cpu_ns;
		t->count -= interval->items[i].total.count;
	}
}

/* Intervals last about a second: a window of one second is one interval. */
static void shorten_window(struct top_model *m)
{
	while (m->first + 1 < m->interval_count &&
	       m->window_ns - interval_at(m, m->first)->ns + 500000000u > m->window * 1000000000ull)
		leave_window(m, interval_at(m, m->first++));
}

static void sum_up(struct top_model *m)
{
	if (m->totals)
		memset(m->totals, 0, (m->key_count + 1) * sizeof(*m->totals));
	m->window_ns = 0;
	m->first = m->interval_count - top_model_intervals(m);
	for (uint64_t i = m->first; i < m->interval_count; i++)
		enter_window(m, interval_at(m, i));
	shorten_window(m);
}

void top_model_set_window(struct top_model *m, unsigned int seconds)
{
	m->window = seconds;
	sum_up(m);
}

static struct error *add_bucket(struct top_model *m, struct top_interval *interval,
				const struct wall_bucket *b)
{
	struct top_key key = {b->stack, b->labels, b->creator, b->status, b->wait_reason};
	uint32_t id = key_id(m, &key);

	if (!id || !array_reserve(&interval->items, &interval->capacity, interval->count + 1))
		return &error_no_memory;
	interval->items[interval->count++] = (struct top_amount){id, {b->ns, b->cpu_ns, b->count}};
	interval->states[top_state_of(b->status)] += b->ns;
	return NULL;
}

/* Rebuilds all keys from those of the intervals. */
static struct error *forget_keys(struct top_model *m)
{
	struct top_key *old = m->keys;
	struct error *err = NULL;

	map_release(&m->index);
	m->keys = NULL;
	m->key_count = m->key_capacity = 0;
	for (size_t i = 0; !err && i < TOP_INTERVALS; i++) {
		struct top_interval *interval = &m->intervals[i];

		for (size_t k = 0; !err && k < interval->count; k++) {
			interval->items[k].key = key_id(m, &old[interval->items[k].key]);
			err = interval->items[k].key ? NULL : &error_no_memory;
		}
	}
	free(old);
	if (!err)
		sum_up(m);
	return err;
}

static size_t count_amounts(const struct top_model *m)
{
	size_t count = 0;

	for (size_t i = 0; i < TOP_INTERVALS; i++)
		count += m->intervals[i].count;
	return count;
}

static struct error *keep_first(struct top_model *m, const struct top_interval *interval)
{
	m->first_items = calloc(interval->count + 1, sizeof(*m->first_items));
	if (!m->first_items)
		return &error_no_memory;
	for (size_t i = 0; i < interval->count; i++)
		m->first_items[i] = (struct top_first){m->keys[interval->items[i].key],
						       interval->items[i].total.ns};
	m->first_count = interval->count;
	m->first_ns = interval->ns;
	return NULL;
}

struct error *top_model_add(struct top_model *m, const struct wall_interval *seen)
{
	struct top_interval *interval = interval_at(m, m->interval_count);
	struct error *err = NULL;

	if (!seen->ns)
		return NULL;
	if (m->interval_count >= TOP_INTERVALS && m->first == m->interval_count - TOP_INTERVALS)
		leave_window(m, interval_at(m, m->first++));
	interval->ns = seen->ns;
	interval->count = 0;
	memset(interval->states, 0, sizeof(interval->states));
	for (size_t i = 0; !err && i < seen->count; i++)
		if (seen->buckets[i].ns || seen->buckets[i].cpu_ns || seen->buckets[i].count)
			err = add_bucket(m, interval, &seen->buckets[i]);
	if (!err && !m->first_items)
		err = keep_first(m, interval);
	if (err)
		return err;
	m->interval_count++;
	enter_window(m, interval);
	shorten_window(m);
	if (m->key_count > MANY_KEYS && m->key_count > 2 * count_amounts(m))
		return forget_keys(m);
	return NULL;
}
