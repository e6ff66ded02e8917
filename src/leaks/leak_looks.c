#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "leaks/leak_looks.h"

/* Of a live process: at least so many looks agree. */
#define LOOKS 2
/* More while a goroutine ran at each. */
#define MOST_LOOKS 6
#define PAUSE_NS 50000000L
/* How often what ran or was allocated meanwhile is read again in a look. */
#define ROUNDS 4
#define MOST_GENERAL 32

/* ---- objects whose pointers are not followed ---- */

static uint64_t word_at(const uint8_t *bytes, size_t at)
{
	uint64_t word;

	memcpy(&word, bytes + at, sizeof(word));
	return word;
}

static bool is_g(const struct leak_looks *l, uint64_t address)
{
	return map_find(&l->waits->by_g, address) != NULL;
}

/*
 * A goroutine's g, and a sudog that leads from a channel or from the runtime's table of semaphores
 * to a goroutine. The runtime hides the pointers in these from its collector for the same purpose
 * (setSyncObjectsUntraceable).
 */
static bool is_opaque(void *arg, struct heap_object object, const uint8_t *bytes, size_t size)
{
	const struct leak_looks *l = arg;
	const struct golayout_numbers *n = &l->lay->n;
	uint64_t object_size = object.span->object_size;

	if (object_size >= (uint64_t)n->g_size && object_size <= 2 * (uint64_t)n->g_size &&
	    is_g(l, heap_object_address(object)))
		return true;
	return object_size >= (uint64_t)n->sudog_size &&
	       object_size <= (uint64_t)n->sudog_size + 32 && (size_t)n->sudog_g + 8 <= size &&
	       is_g(l, word_at(bytes, (size_t)n->sudog_g));
}

/* ---- which goroutines may be leaked ---- */

static bool is_sync_kind(enum wait_kind kind)
{
	return kind == WAIT_MUTEX || kind == WAIT_RWMUTEX || kind == WAIT_WAITGROUP ||
	       kind == WAIT_COND || kind == WAIT_CHANNEL || kind == WAIT_SELECT;
}

/* A select whose channels are all nil. */
static bool has_no_case(const struct leak_looks *l, const struct wait_goroutine *g)
{
	return !g->edge_count && !g->waiting &&
	       !strcmp(goroutine_set_wait_reason(l->waits->set, g->reason), "select");
}

bool leak_looks_may_be_leaked(const struct leak_looks *l, size_t i)
{
	const struct wait_goroutine *g = &l->waits->goroutines[i];
	const char *reason = goroutine_set_wait_reason(l->waits->set, g->reason);

	if (!g->alive || g->system || g->changed || g->partial || g->bubble || !g->has_stack ||
	    (g->status != G_WAITING && g->status != G_LEAKED))
		return false;
	/* Goroutines of synctest wait in words of their own, and wake by its clock. */
	if (strstr(reason, "synctest") || strstr(reason, "durable"))
		return false;
	for (uint32_t k = 0; k < g->edge_count; k++) {
		const struct wait_edge *e = &l->waits->edges[g->first_edge + k];
		const uint64_t *cond;

		if (!is_sync_kind(e->kind))
			return false;
		cond = e->kind == WAIT_COND ? map_find(&l->conds, g->g) : NULL;
		if (e->kind == WAIT_COND && (!cond || *cond != e->address))
			return false;
	}
	return g->edge_count || has_no_case(l, g);
}

/* Whether a goroutine that can run reaches an object that this one waits for. */
static bool is_awake(const struct leak_looks *l, size_t i)
{
	const struct wait_goroutine *g = &l->waits->goroutines[i];

	for (uint32_t k = 0; k < g->edge_count; k++) {
		uint64_t address = l->waits->edges[g->first_edge + k].address;

		/* No other goroutine has pointers to this one's stack. */
		if (!address || (address >= g->stack_lo && address < g->stack_hi))
			continue;
		if (heap_marks_of(l->marks, address) != HEAP_UNMARKED)
			return true;
	}
	return false;
}

/* ---- one look ---- */

static struct error *must_check make_room(struct leak_looks *l)
{
	size_t count = l->waits->count;

	if (!array_reserve(&l->states, &l->capacity[0], count + 1) ||
	    !array_reserve(&l->added, &l->capacity[1], count + 1) ||
	    !array_reserve(&l->ran, &l->capacity[2], count + 1) ||
	    !array_reserve(&l->agreeing, &l->capacity[3], count + 1))
		return &error_no_memory;
	for (size_t i = l->count; i < count; i++) {
		l->states[i] = LEAK_UNKNOWN;
		l->added[i] = 0;
		l->ran[i] = l->leaks->looks == 0;
		l->agreeing[i] = 0;
	}
	l->count = count;
	return NULL;
}

struct error *leak_looks_add(struct leak_looks *l, size_t i)
{
	const struct wait_goroutine *g = &l->waits->goroutines[i];
	const struct heap_stack stack = {.lo = g->stack_lo,
					 .hi = g->stack_hi,
					 .sp = g->sp,
					 .pc = g->pc,
					 .lr = g->lr,
					 .fp = g->fp,
					 .runs = !g->has_stack};

	l->states[i] = LEAK_AWAKE;
	l->added[i] = g->look;
	return g->alive ? heap_marks_add_goroutine(l->marks, g->g, &stack) : NULL;
}

/* Adds as roots all goroutines that changed since they were added, and those that may run. */
static struct error *must_check add_goroutines(struct leak_looks *l)
{
	struct error *err = make_room(l);

	for (size_t i = 0; i < l->count && !err; i++) {
		const struct wait_goroutine *g = &l->waits->goroutines[i];
		bool same = g->look <= l->start;

		if (l->states[i] == LEAK_AWAKE && l->added[i] == g->look)
			continue;
		if (l->states[i] == LEAK_UNKNOWN && same && leak_looks_may_be_leaked(l, i))
			l->states[i] = LEAK_CANDIDATE;
		else if (l->states[i] != LEAK_CANDIDATE || !same)
			err = leak_looks_add(l, i);
	}
	return err;
}

static struct error *must_check follow(struct leak_looks *l)
{
	struct error *err = heap_marks_drain(l->marks);
	bool more = true;

	for (int i = 0; i < ROUNDS && more && !err; i++) {
		err = heap_marks_refresh(l->marks, &more);
		if (!err)
			err = heap_marks_drain(l->marks);
	}
	return err;
}

/* Until nothing more is reached. */
static struct error *must_check wake(struct leak_looks *l)
{
	bool any = true;
	struct error *err = follow(l);

	while (any && !err) {
		any = false;
		for (size_t i = 0; i < l->count && !err; i++) {
			if (l->states[i] != LEAK_CANDIDATE || !is_awake(l, i))
				continue;
			any = true;
			err = leak_looks_add(l, i);
		}
		if (!err && any)
			err = follow(l);
	}
	return err;
}

/* The registers of a core file's threads. */
static struct error *must_check add_registers(struct leak_looks *l)
{
	struct target_registers r;
	struct target_thread *threads;
	size_t count;
	struct error *err;

	if (!target_stands_still(l->t))
		return NULL;
	err = target_threads(l->t, &threads, &count);
	if (err)
		return err;
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; target_registers(l->t, threads[i].inner, &r) && k < MOST_GENERAL;
		     k++)
			heap_marks_add(l->marks, r.general[k]);
	free(threads);
	return NULL;
}

static struct error *must_check look(struct leak_looks *l)
{
	const struct heap_marks_options how = {.opaque = is_opaque,
					       .arg = l,
					       .stop = l->options->stop};
	struct error *err = NULL;

	heap_marks_close(l->marks);
	l->marks = NULL;
	for (size_t i = 0; i < l->count; i++)
		l->states[i] = LEAK_UNKNOWN;
	l->start = l->waits->looks;
	err = heap_marks_open(l->t, l->img, l->lay, &how, &l->marks);
	if (!err)
		err = heap_marks_add_globals(l->marks);
	if (!err)
		err = heap_marks_add_specials(l->marks);
	if (!err)
		err = add_registers(l);
	if (!err)
		err = add_goroutines(l);
	if (!err)
		err = wake(l);
	/* What ran meanwhile may have taken pointers from where they were not yet seen. */
	for (int i = 0; i < ROUNDS && !err && !target_stands_still(l->t); i++) {
		uint32_t before = l->waits->looks;
		bool any = false;

		err = wait_graph_look(l->waits);
		for (size_t k = 0; k < l->waits->count && !any; k++)
			any = l->waits->goroutines[k].look > before;
		if (!err)
			err = add_goroutines(l);
		if (!err)
			err = wake(l);
		if (!any)
			break;
	}
	return err;
}

/* ---- all looks ---- */

/* Goroutines that ran at each look. */
static uint64_t note_running(struct leak_looks *l)
{
	uint64_t found = 0;

	for (size_t i = 0; i < l->count; i++) {
		const struct wait_goroutine *g = &l->waits->goroutines[i];

		l->ran[i] &= g->alive && !g->system && g->status == G_RUNNING;
		if (l->ran[i] && !found)
			found = g->id;
	}
	return found;
}

/*
 * Whether the looks agree: what this one found leaked, so did those before it, and it did not run
 * in between. What only this look found waits for the next.
 */
static bool note_agreement(struct leak_looks *l)
{
	bool agree = true;

	for (size_t i = 0; i < l->count; i++) {
		bool leaked = l->states[i] == LEAK_CANDIDATE;

		/* It ran: what was found before does not count. */
		if (!leaked || l->waits->goroutines[i].look > l->previous)
			l->agreeing[i] = 0;
		l->agreeing[i] += leaked && l->agreeing[i] < LOOKS;
		agree &= !leaked || l->agreeing[i] >= LOOKS;
	}
	l->previous = l->start;
	return agree;
}

/* At the end, only what several looks agree on is leaked. */
static struct error *must_check drop_others(struct leak_looks *l)
{
	struct error *err = NULL;
	bool any = false;

	for (size_t i = 0; i < l->count && !err; i++) {
		if (l->states[i] != LEAK_CANDIDATE || l->agreeing[i] >= LOOKS)
			continue;
		any = true;
		err = leak_looks_add(l, i);
	}
	return err || !any ? err : wake(l);
}

static void pause_looks(void)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};

	nanosleep(&pause, NULL);
}

struct error *leak_looks_take(struct leak_looks *l)
{
	bool still = target_stands_still(l->t), agree = false;
	struct error *err = NULL;

	for (size_t i = 0; i < MOST_LOOKS && !err; i++) {
		if (i)
			pause_looks();
		err = wait_graph_look(l->waits);
		if (!err)
			err = leak_conds_find(l);
		if (!err)
			err = look(l);
		if (err)
			return err;
		l->leaks->runs = still ? 0 : note_running(l);
		l->leaks->looks = i + 1;
		agree = note_agreement(l);
		if (still || (agree && !l->leaks->runs && i + 1 >= LOOKS))
			return NULL;
		err = target_check(l->t);
	}
	return err || agree ? err : drop_others(l);
}

void leak_looks_release(struct leak_looks *l)
{
	heap_marks_close(l->marks);
	free(l->states);
	free(l->added);
	free(l->ran);
	free(l->agreeing);
	map_release(&l->conds);
}
