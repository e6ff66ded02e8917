#include "profile/stands_out.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/strbuf.h"
#include "profile/places.h"
#include "profile/rhythm.h"

/* The thresholds of findings: shares of time, and numbers of goroutines or cores. */
#define REQUEST_PART 0.10
#define LOCK_PART 0.05
#define LOCK_GOROUTINES 0.1
#define BUSY_CORES 0.1
#define CPU_PART 0.20
#define RUNNABLE_PART 0.20
#define RUNNABLE_GOROUTINES 0.2
#define GC_PART 0.10
#define CROWD 100
#define CROWD_PART 0.30
#define BIG_CROWD 1000
#define SYSCALL_PART 0.10
#define SYSCALL_GOROUTINES 0.1
#define GROWTH 10
#define GROWTH_PART 0.25
/* The most loops in a sentence, and the least share that each needs of the time that waits for
 * work. */
#define LOOPS 3
#define LOOP_PART 0.1
#define LEAST_LONGEST_NS 1000000u
/* The most parts of a list, and the least share of each. */
#define LISTED 3
#define LISTED_PART 0.01

struct finder {
	const struct profile *profile;
	const struct profile_symbols *symbols;
	struct tally tally;
	struct stands_out *out;
	size_t most;          /* sentences */
	struct rhythm rhythm; /* period_ns is 0: none */
};

static const char *name_of(const struct finder *f, uint32_t function)
{
	return intern_get(&f->symbols->strings, function);
}

/* The mean number of goroutines that spend this time; 0 if the duration is unknown. A profile
 * without times has counts instead. */
static double goroutines(const struct finder *f, uint64_t time)
{
	if (!f->tally.timed)
		return time;
	return f->profile->duration_ns ? (double)time / f->profile->duration_ns : 0;
}

/* ---- words ---- */

/* "64 %", "6.4 %"; nearly all is never shown as 100 %. */
static void add_share(struct strbuf *sb, uint64_t part, uint64_t whole)
{
	double percent = whole ? 100.0 * part / whole : 0;
	bool nearly = percent >= 99 && percent < 99.95;

	strbuf_addf(sb, "%.*f %%", nearly || percent < 9.95 ? 1 : 0, percent);
}

static void add_integer(struct strbuf *sb, unsigned long value)
{
	if (value >= 1000) {
		add_integer(sb, value / 1000);
		strbuf_addf(sb, ",%03lu", value % 1000);
	} else {
		strbuf_addf(sb, "%lu", value);
	}
}

/* "0.85", "2.7", "12", "10,231" */
static void add_amount(struct strbuf *sb, double amount)
{
	if (amount < 9.95)
		strbuf_addf(sb, "%.*f", amount < 0.995 ? 2 : 1, amount);
	else
		add_integer(sb, amount < 1e18 ? (unsigned long)(amount + 0.5) : ULONG_MAX);
}

static void add_goroutines(struct strbuf *sb, const struct finder *f, uint64_t time)
{
	if (f->tally.timed)
		add_amount(sb, goroutines(f, time));
	else
		add_integer(sb, time);
	strbuf_adds(sb, !f->tally.timed && time == 1 ? " goroutine" : " goroutines");
}

static const char *wait_words(const char *wait)
{
	if (!strcmp(wait, "IO wait") || !strcmp(wait, "network"))
		return "the network";
	if (!strcmp(wait, "sync"))
		return "a lock (sync)";
	if (!strcmp(wait, "sleep"))
		return "a timer (sleep)";
	return *wait ? wait : "an unknown reason";
}

/* "a/b.(*T).M[a/c.T]" is "b.(*T).M[a/c.T]". */
static const char *without_path(const char *name)
{
	size_t at = strcspn(name, "[");

	while (at && name[at - 1] != '/')
		at--;
	return name + at;
}

static void add_place(struct strbuf *sb, const struct finder *f, const struct place *p)
{
	strbuf_addf(sb, " %s in %s", wait_words(intern_get(&f->profile->strings, p->wait)),
		    without_path(name_of(f, p->function)));
}

/* An expression that matches this function alone. */
static void add_focus(struct strbuf *sb, const char *name)
{
	strbuf_addc(sb, '^');
	for (; *name; name++) {
		if (strchr(".*+?^${}()|[]\\", *name))
			strbuf_addc(sb, '\\');
		strbuf_addc(sb, *name);
	}
	strbuf_addc(sb, '$');
}

/* Copies text and focus. */
static struct error *say(struct finder *f, const struct strbuf *text, const struct strbuf *focus,
			 struct sentence view)
{
	struct sentence *s = &f->out->sentences[f->out->count];

	if (f->out->count >= f->most)
		return NULL;
	if (text->failed || focus->failed)
		return &error_no_memory;
	*s = view;
	s->text = strdup(text->data);
	s->focus = strdup(focus->data);
	f->out->count++;
	return s->text && s->focus ? NULL : &error_no_memory;
}

static struct error *say_place(struct finder *f, const struct strbuf *text, const struct place *p)
{
	_cleanup_strbuf_ struct strbuf focus = STRBUF_INIT;
	struct sentence view = {.kind = "", .idle = p->idle > 0};

	add_focus(&focus, name_of(f, p->function));
	view.wait = intern_get(&f->profile->strings, p->wait);
	return say(f, text, &focus, view);
}

/* ---- the sentences ---- */

static struct error *say_requests(struct finder *f)
{
	const struct places *places = &f->tally.requests;
	struct error *err = NULL;

	for (size_t i = 0; i < places->count && i < 2 && !err; i++) {
		_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
		const struct place *p = &places->items[i];

		if (!p->time || p->time < REQUEST_PART * f->tally.request)
			break;
		add_share(&sb, p->time, f->tally.request);
		strbuf_adds(&sb, " of request time waits for");
		add_place(&sb, f, p);
		err = say_place(f, &sb, p);
	}
	return err;
}

static struct error *say_lock(struct finder *f)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	const struct place *p = f->tally.locks.items;

	if (!p || p->time < LOCK_PART * f->tally.busy || goroutines(f, p->time) < LOCK_GOROUTINES)
		return NULL;
	add_goroutines(&sb, f, p->time);
	strbuf_adds(&sb, f->tally.request ? " outside requests wait for" : " wait for");
	add_place(&sb, f, p);
	return say_place(f, &sb, p);
}

/* Adds to the self time of each node the times of its descendants. */
static void sum_up(struct stack_tree *tree)
{
	for (size_t i = tree->count; i-- > 1;)
		tree->nodes[tree->nodes[i].parent].self += tree->nodes[i].self;
}

static bool is_of_program(const char *name)
{
	return strncmp(name, "runtime.", 8) != 0 && *name != '[';
}

/* For each node its heaviest callee that accounts for its share of the CPU time, or 0. NULL: no
 * memory. */
static uint32_t *heaviest_callees(const struct finder *f)
{
	const struct stack_tree *tree = &f->tally.cpu;
	uint32_t *best = calloc(tree->count + 1, sizeof(*best));

	for (uint32_t i = 1; best && i < tree->count; i++) {
		const struct stack_node *n = &tree->nodes[i];
		uint32_t *of = &best[n->parent];

		if (n->self >= CPU_PART * f->tally.cpu_ns && is_of_program(name_of(f, n->key)) &&
		    (!*of || n->self > tree->nodes[*of].self))
			*of = i;
	}
	return best;
}

/* The length of "a/b" in "a/b.(*T).M[...]". */
static size_t package_length(const char *name)
{
	const char *plain = without_path(name);

	return plain - name + strcspn(plain, ".[");
}

/* An unexported function of another package than main. */
static bool is_internal(const char *name)
{
	size_t package = package_length(name), head = package + strcspn(name + package, "[");
	size_t last = head;

	while (last > package && name[last - 1] != '.')
		last--;
	return strncmp(name, "main.", 5) != 0 && name[last] >= 'a' && name[last] <= 'z';
}

static bool is_same_package(const char *a, const char *b)
{
	size_t length = package_length(a);

	return length == package_length(b) && !strncmp(a, b, length);
}

/* The deepest function that accounts for its share of the CPU time; for internals of a package
 * their caller, if it has hardly more. INTERN_FAILED: none. */
static struct error *cpu_function(struct finder *f, uint32_t *ret)
{
	const struct stack_node *nodes = f->tally.cpu.nodes;
	_cleanup_free_ uint32_t *callees = NULL;
	uint32_t node = 0, next;

	sum_up(&f->tally.cpu);
	callees = heaviest_callees(f);
	if (!callees)
		return &error_no_memory;
	while (callees[node])
		node = callees[node];
	*ret = INTERN_FAILED;
	if (!node)
		return NULL;
	while ((next = nodes[node].parent) && is_internal(name_of(f, nodes[node].key)) &&
	       is_same_package(name_of(f, nodes[node].key), name_of(f, nodes[next].key)) &&
	       nodes[next].self < 1.5 * nodes[node].self)
		node = next;
	*ret = nodes[node].key;
	return NULL;
}

/* The CPU time of all the function's places in the tree; nested ones count once. */
static uint64_t cpu_of(const struct stack_tree *tree, uint32_t function)
{
	uint64_t sum = 0;

	for (uint32_t i = 1; i < tree->count; i++) {
		uint32_t above = tree->nodes[i].parent;

		if (tree->nodes[i].key != function)
			continue;
		while (above && tree->nodes[above].key != function)
			above = tree->nodes[above].parent;
		sum += above ? 0 : tree->nodes[i].self;
	}
	return sum;
}

static struct error *say_cpu(struct finder *f)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT, focus = STRBUF_INIT;
	const struct tally *t = &f->tally;
	double cores = t->timed ? goroutines(f, t->cpu_ns) : 0;
	uint32_t function;
	struct error *err;

	if (cores < BUSY_CORES)
		return NULL;
	err = cpu_function(f, &function);
	if (err)
		return err;
	add_amount(&sb, cores);
	strbuf_adds(&sb, " cores busy");
	if (function != INTERN_FAILED) {
		strbuf_adds(&sb, "; ");
		add_share(&sb, cpu_of(&t->cpu, function), t->cpu_ns);
		strbuf_addf(&sb, " of CPU time in %s", without_path(name_of(f, function)));
		add_focus(&focus, name_of(f, function));
	}
	return say(f, &sb, &focus, (struct sentence){.kind = "running"});
}

static struct error *say_runnable(struct finder *f)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT, focus = STRBUF_INIT;
	uint64_t ready = f->tally.running + f->tally.runnable;

	if (!f->tally.timed || f->tally.runnable < RUNNABLE_PART * ready ||
	    goroutines(f, f->tally.runnable) < RUNNABLE_GOROUTINES)
		return NULL;
	add_goroutines(&sb, f, f->tally.runnable);
	strbuf_adds(&sb, " wait for a CPU, ");
	add_share(&sb, f->tally.runnable, ready);
	strbuf_adds(&sb, " of the time in which they could run");
	return say(f, &sb, &focus, (struct sentence){.kind = "runnable"});
}

static struct error *say_gc(struct finder *f)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT, focus = STRBUF_INIT;

	if (!f->tally.gc_ns || f->tally.gc_ns < GC_PART * f->tally.cpu_ns)
		return NULL;
	add_share(&sb, f->tally.gc_ns, f->tally.cpu_ns);
	strbuf_adds(&sb, " of CPU time is garbage collection");
	strbuf_adds(&focus, gc_functions);
	return say(f, &sb, &focus, (struct sentence){.kind = "running"});
}

/* Whether the place is a crowd. Idle connections are not. */
static bool is_crowd(const struct finder *f, const struct place *p)
{
	double count = goroutines(f, p->time);
	const char *wait = intern_get(&f->profile->strings, p->wait);

	if (p->idle == p->time && (!strcmp(wait, "IO wait") || !strcmp(wait, "network")))
		return false;
	return count >= BIG_CROWD || (count >= CROWD && p->time >= CROWD_PART * f->tally.total);
}

static struct error *say_crowd(struct finder *f)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	const struct places *blocked = &f->tally.blocked;
	size_t i = 0;

	while (i < blocked->count && !is_crowd(f, &blocked->items[i]))
		i++;
	if (i == blocked->count)
		return NULL;
	add_goroutines(&sb, f, blocked->items[i].time);
	strbuf_adds(&sb, " wait for");
	add_place(&sb, f, &blocked->items[i]);
	return say_place(f, &sb, &blocked->items[i]);
}

static struct error *say_syscalls(struct finder *f)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT, focus = STRBUF_INIT;
	const struct tally *t = &f->tally;

	if (!t->syscall || t->syscall < SYSCALL_PART * t->busy ||
	    goroutines(f, t->syscall) < SYSCALL_GOROUTINES)
		return NULL;
	add_goroutines(&sb, f, t->syscall);
	strbuf_addf(&sb, " in system calls, most of them in %s",
		    without_path(name_of(f, t->syscalls.items[0].function)));
	add_focus(&focus, name_of(f, t->syscalls.items[0].function));
	return say(f, &sb, &focus, (struct sentence){.kind = "syscall"});
}

static void add_time(struct strbuf *sb, uint64_t ns)
{
	double s = ns / 1e9;

	if (ns < 1000000)
		strbuf_addf(sb, "%.2g ms", s * 1e3);
	else if (s < 0.995)
		strbuf_addf(sb, "%.0f ms", s * 1e3);
	else if (s < 9.95)
		strbuf_addf(sb, "%.1f s", s);
	else
		strbuf_addf(sb, "%.0f s", s);
}

static struct error *say_rhythm(struct finder *f)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	const struct rhythm *r = &f->rhythm;

	if (!r->period_ns)
		return NULL;
	strbuf_adds(&sb, "Every ");
	add_time(&sb, r->period_ns);
	strbuf_adds(&sb, ", for ");
	add_time(&sb, r->burst_ns);
	strbuf_adds(&sb, ", ");
	add_amount(&sb, r->goroutines);
	strbuf_adds(&sb, " goroutines wait for");
	add_place(&sb, f, &r->place);
	return say_place(f, &sb, &r->place);
}

static struct error *say_growth(struct finder *f)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT, focus = STRBUF_INIT;
	double first, last;
	struct error *err = rhythm_growth(f->profile, &first, &last);
	double by = last > first ? last - first : first - last;

	if (err || by < GROWTH || by < GROWTH_PART * first)
		return err;
	strbuf_addf(&sb, "The number of goroutines %s from ", last > first ? "grows" : "falls");
	add_amount(&sb, first);
	strbuf_adds(&sb, " to ");
	add_amount(&sb, last);
	return say(f, &sb, &focus, (struct sentence){.kind = "", .idle = true});
}

/* ---- facts about any profile ---- */

static int by_idle(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return (x->idle < y->idle) - (x->idle > y->idle);
}

/* Says which share waits for work, and which loops have most of it. */
static struct error *say_awaiting(struct finder *f)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT, focus = STRBUF_INIT;
	const struct places *loops = &f->tally.loops;
	uint64_t idle = 0;

	for (size_t i = 0; i < loops->count; i++)
		idle += loops->items[i].idle;
	if (!idle)
		return NULL;
	qsort(loops->items, loops->count, sizeof(*loops->items), by_idle);
	add_share(&sb, idle, f->tally.total);
	strbuf_adds(&sb, f->tally.timed ? " of all time waits for work: "
					: " of all goroutines wait for work: ");
	for (size_t i = 0; i < loops->count && i < LOOPS; i++) {
		const struct place *p = &loops->items[i];

		if (i && p->idle < LOOP_PART * idle)
			break;
		strbuf_adds(&sb, i ? ", " : "");
		add_share(&sb, p->idle, f->tally.total);
		strbuf_addf(&sb, " in %s", without_path(name_of(f, p->function)));
		strbuf_adds(&focus, i ? "|" : "");
		add_focus(&focus, name_of(f, p->function));
	}
	return say(f, &sb, &focus, (struct sentence){.kind = "", .idle = true});
}

static struct error *say_count(struct finder *f)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT, focus = STRBUF_INIT;
	const struct places *loops = &f->tally.loops;
	const struct place *most = loops->items;

	if (!loops->count || !goroutines(f, f->tally.total))
		return NULL;
	for (size_t i = 1; i < loops->count; i++)
		if (loops->items[i].time > most->time)
			most = &loops->items[i];
	add_goroutines(&sb, f, f->tally.total);
	strbuf_adds(&sb, f->tally.timed ? " on average, " : ", ");
	add_share(&sb, most->time, f->tally.total);
	strbuf_addf(&sb, " of them in %s", without_path(name_of(f, most->function)));
	add_focus(&focus, name_of(f, most->function));
	return say(f, &sb, &focus, (struct sentence){.kind = "", .idle = true});
}

static struct place place_of_key(uint64_t key)
{
	return (struct place){.function = key >> 32, .wait = (uint32_t)key};
}

static struct error *say_longest(struct finder *f)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	const struct profile_sample *longest = NULL;
	struct place place;

	for (size_t i = 0; i < f->profile->count; i++) {
		const struct profile_sample *s = &f->profile->samples[i];

		if (!f->tally.blocked_at[i] || s->longest_ns < LEAST_LONGEST_NS)
			continue;
		if (longest && s->longest_ns <= longest->longest_ns)
			continue;
		longest = s;
		place = place_of_key(f->tally.blocked_at[i]);
	}
	if (!longest)
		return NULL;
	strbuf_adds(&sb, "The longest wait: ");
	add_time(&sb, longest->longest_ns);
	strbuf_addf(&sb, ", goroutine %" PRIu64 ", for", longest->longest_goroutine);
	add_place(&sb, f, &place);
	return say_place(f, &sb, &place);
}

static bool is_reported(const struct finder *f, const struct strbuf *focus, const char *wait)
{
	for (size_t i = 0; i < f->out->count; i++) {
		const struct sentence *s = &f->out->sentences[i];

		if (s->wait && !strcmp(s->focus, focus->data) && !strcmp(s->wait, wait))
			return true;
	}
	return false;
}

static struct error *say_largest(struct finder *f)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT, focus = STRBUF_INIT;
	const struct places *blocked = &f->tally.blocked;
	const struct place *largest = NULL;

	for (size_t i = 0; i < blocked->count; i++) {
		const struct place *p = &blocked->items[i];

		if (p->time > p->idle &&
		    (!largest || p->time - p->idle > largest->time - largest->idle))
			largest = p;
	}
	if (!largest)
		return NULL;
	add_focus(&focus, name_of(f, largest->function));
	if (!focus.failed &&
	    is_reported(f, &focus, intern_get(&f->profile->strings, largest->wait)))
		return NULL;
	strbuf_adds(&sb, "Of what is not idle, ");
	add_share(&sb, largest->time - largest->idle, f->tally.busy);
	strbuf_adds(&sb, " waits for");
	add_place(&sb, f, largest);
	return say_place(f, &sb,
			 &(struct place){largest->function, largest->wait, largest->time, 0});
}

/* ---- where these are fewer than three ---- */

static void add_part(struct strbuf *sb, size_t *count, uint64_t part, uint64_t whole,
		     const char *words)
{
	if (!part || *count == LISTED || part < LISTED_PART * whole)
		return;
	strbuf_adds(sb, (*count)++ ? ", " : "");
	add_share(sb, part, whole);
	strbuf_addf(sb, " %s", words);
}

static struct error *say_states(struct finder *f)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT, focus = STRBUF_INIT;
	const struct tally *t = &f->tally;
	uint64_t in_syscalls = t->total - t->waiting - t->running - t->runnable;
	size_t count = 0;

	strbuf_adds(&sb, t->timed ? "Of all time, goroutines are " : "Of all goroutines, ");
	add_part(&sb, &count, t->waiting, t->total, "blocked");
	add_part(&sb, &count, t->running, t->total, "on a CPU");
	add_part(&sb, &count, in_syscalls, t->total, "in system calls");
	add_part(&sb, &count, t->runnable, t->total, "waiting for a CPU");
	if (count < 2)
		return NULL;
	return say(f, &sb, &focus, (struct sentence){.kind = "", .idle = true});
}

static struct error *say_selves(struct finder *f)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT, focus = STRBUF_INIT;
	const struct places *selves = &f->tally.selves;
	size_t count = 0;

	strbuf_adds(&sb, "CPU time by function: ");
	for (size_t i = 0; i < selves->count; i++) {
		const char *name = name_of(f, selves->items[i].function);
		size_t before = count;

		add_part(&sb, &count, selves->items[i].time, f->tally.cpu_ns, without_path(name));
		if (count == before)
			break;
		strbuf_adds(&focus, before ? "|" : "");
		add_focus(&focus, name);
	}
	if (!count)
		return NULL;
	return say(f, &sb, &focus, (struct sentence){.kind = "running", .idle = true});
}

static struct error *say_waits(struct finder *f)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT, focus = STRBUF_INIT;
	const struct places *waits = &f->tally.waits;
	size_t count = 0;

	strbuf_adds(&sb, "Blocked, by reason: ");
	for (size_t i = 0; i < waits->count; i++)
		add_part(&sb, &count, waits->items[i].time, f->tally.waiting,
			 wait_words(intern_get(&f->profile->strings, waits->items[i].wait)));
	if (count < 2)
		return NULL;
	return say(f, &sb, &focus, (struct sentence){.kind = "", .idle = true});
}

static struct error *say_each(struct finder *f, struct error *(*const *makers)(struct finder *),
			      size_t count)
{
	struct error *err = NULL;

	for (size_t i = 0; i < count && !err; i++)
		err = makers[i](f);
	return err;
}

struct error *stands_out_find(const struct profile *p, const struct profile_symbols *symbols,
			      struct stands_out *ret)
{
	static struct error *(*const grave[])(struct finder *) = {
		say_requests, say_lock, say_rhythm, say_growth,   say_cpu,
		say_runnable, say_gc,   say_crowd,  say_syscalls,
	};
	static struct error *(*const always[])(struct finder *) = {say_awaiting, say_count,
								   say_longest, say_largest};
	static struct error *(*const simple[])(struct finder *) = {say_states, say_selves,
								   say_waits};
	_cleanup_stands_out_ struct stands_out out = {0};
	struct finder f = {.profile = p, .symbols = symbols, .out = &out, .most = MAX_GRAVE};
	struct error *err;

	*ret = (struct stands_out){0};
	if (p->type_count || p->unit == PROFILE_BYTES)
		return NULL; /* the sentences are about goroutines and their time */
	err = tally_make(p, symbols, &f.tally);
	if (!err)
		err = rhythm_find(p, &f.tally, &f.rhythm);
	if (!err)
		err = say_each(&f, grave, ARRAY_SIZE(grave));
	out.grave = out.count;
	f.most = MAX_SENTENCES;
	if (!err)
		err = say_each(&f, always, ARRAY_SIZE(always));
	f.most = MIN_SENTENCES;
	if (!err)
		err = say_each(&f, simple, ARRAY_SIZE(simple));
	tally_release(&f.tally);
	if (err)
		return err;
	*ret = out;
	out.count = 0;
	return NULL;
}

void stands_out_release(struct stands_out *s)
{
	for (size_t i = 0; i < s->count; i++) {
		free(s->sentences[i].text);
		free(s->sentences[i].focus);
	}
	s->count = 0;
}
