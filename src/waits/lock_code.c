#include "waits/lock_code.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "waits/lock_machine.h"

#define MAX_FUNCTION_SIZE (64u << 10)
#define MAX_EVENTS 512
/* Calls in one function, whose functions are looked at. */
#define MAX_CALLS 512
#define MAX_INLINED 64
/* The slow half of an inlined function is called within this many instructions. */
#define SLOW_WITHIN 8
/* The offset of readerCount in sync.RWMutex. */
#define RWMUTEX_READER_COUNT 16

/* ---- which functions ---- */

struct lock_function {
	const char *name; /* behind "sync.(*" */
	enum lock_action action;
	bool reads;
	int64_t word;     /* the offset in its object that the inlined code changes */
	const char *slow; /* the function that the inlined code may call; NULL: none */
};

static const struct lock_function functions[] = {
	{"Mutex).Lock", LOCK_TAKES, false, 0, "(*Mutex).lockSlow"},
	{"Mutex).TryLock", LOCK_TRIES, false, 0, NULL},
	{"Mutex).Unlock", LOCK_FREES, false, 0, "(*Mutex).unlockSlow"},
	{"RWMutex).Lock", LOCK_TAKES, false, 0, NULL},
	{"RWMutex).TryLock", LOCK_TRIES, false, 0, NULL},
	{"RWMutex).Unlock", LOCK_FREES, false, 0, NULL},
	{"RWMutex).RLock", LOCK_TAKES, true, RWMUTEX_READER_COUNT, "runtime_SemacquireRWMutexR"},
	{"RWMutex).TryRLock", LOCK_TRIES, true, RWMUTEX_READER_COUNT, NULL},
	{"RWMutex).RUnlock", LOCK_FREES, true, RWMUTEX_READER_COUNT, "(*RWMutex).rUnlockSlow"},
	{"WaitGroup).Done", LOCK_DONE, false, 0, NULL},
};

static const char *in_sync(const char *name)
{
	if (!strncmp(name, "internal/", 9))
		name += 9;
	return strncmp(name, "sync.", 5) ? NULL : name + 5;
}

static const struct lock_function *function_of_slow(const char *name)
{
	const char *of = in_sync(name);

	for (size_t i = 0; of && i < ARRAY_SIZE(functions); i++)
		if (functions[i].slow && !strcmp(of, functions[i].slow))
			return &functions[i];
	return NULL;
}

static const struct lock_function *function_named(const char *name)
{
	if (!strncmp(name, "internal/", 9))
		name += 9;
	if (strncmp(name, "sync.(*", 7))
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(functions); i++)
		if (!strcmp(name + 7, functions[i].name))
			return &functions[i];
	return NULL;
}

/* Functions that do not return, and morestack, which restarts its caller. */
static bool is_endless(const char *name)
{
	static const char *const beginnings[] = {"gopanic", "panic",      "goPanic", "throw",
						 "fatal",   "morestack",  "goexit",  "sigpanic",
						 "block",   "deferreturn"};

	if (strncmp(name, "runtime.", 8))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(beginnings); i++)
		if (!strncmp(name + 8, beginnings[i], strlen(beginnings[i])))
			return strcmp(name + 8, "panicwrap") != 0;
	return false;
}

/* ---- events ---- */

static bool add_event(struct lock_reading *r, size_t i, const struct lock_function *of,
		      struct lock_operand operand, int line)
{
	struct lock_code *code = r->code;

	if (code->event_count == MAX_EVENTS) {
		code->opaque = true;
		return true;
	}
	if (!array_reserve(&code->events, &code->event_capacity, code->event_count + 1))
		return false;
	code->events[code->event_count++] =
		(struct lock_event){of->action, of->reads, operand, line};
	code->insns[i].event = code->event_count;
	return true;
}

static bool flow_at(const struct lock_reading *r, size_t i, struct lock_flow *ret)
{
	return r->machine->flow(lock_bytes(r, i), r->code->insns[i].length, ret);
}

static bool find_callee(const struct lock_reading *r, size_t i, const struct lock_flow *flow,
			struct go_func *ret)
{
	return flow->calls &&
	       pclntab_find(&r->img->functions, lock_address(r, i) + flow->distance, ret);
}

/* The function that the first call calls, within `count` instructions from i on. */
static const char *first_call(const struct lock_reading *r, size_t i, size_t count,
			      struct go_func *f)
{
	struct lock_flow flow;

	for (size_t k = i; k < r->code->count && k < i + count; k++) {
		if (!flow_at(r, k, &flow))
			return NULL;
		if (flow.calls)
			return find_callee(r, k, &flow, f) ? f->name : NULL;
		if (r->code->insns[k].ends)
			return NULL;
	}
	return NULL;
}

/*
 * If the mutex is not the first member of its structure, the compiler may assign the instruction to
 * the line that calls Lock, and not to the inlined function. Then the slow half of Lock shows which
 * function it is. It is called after the instruction, or at the target of the branch after it.
 */
static const struct lock_function *function_by_slow(const struct lock_reading *r, size_t i)
{
	struct go_func f;

	for (size_t k = i + 1; k < r->code->count && k <= i + SLOW_WITHIN; k++) {
		uint32_t target = r->code->insns[k].target;
		const char *name;

		if (target == LOCK_NO_TARGET)
			continue;
		name = first_call(r, k + 1, SLOW_WITHIN, &f);
		if (name && function_of_slow(name))
			return function_of_slow(name);
		name = first_call(r, target, SLOW_WITHIN, &f);
		return name ? function_of_slow(name) : NULL;
	}
	return NULL;
}

/* Lock takes by a compare and swap, Unlock frees by an addition; of RLock and RUnlock both are
 * additions. */
static bool changes_as(const struct lock_function *of, enum lock_change change)
{
	if (!of || of->action == LOCK_DONE)
		return false;
	return of->reads || (change == LOCK_ADDS) == (of->action == LOCK_FREES);
}

/* The operand is a word in the object, whose offset is known. */
static struct lock_operand object_of(struct lock_operand o, const struct lock_function *of)
{
	if (o.dereferenced)
		o.behind -= of->word;
	else
		o.plus -= of->word;
	return o;
}

/* An atomic change of memory by inlined code of package sync. */
static bool add_inlined(struct lock_reading *r, size_t i)
{
	enum lock_change change = r->machine->change(r, i);
	struct go_frame frames[MAX_INLINED];
	const struct lock_function *of = NULL;
	size_t n;

	if (!change)
		return true;
	n = pclntab_frames(&r->img->functions, lock_address(r, i) | STACK_PC_EXACT, frames,
			   MAX_INLINED);
	for (size_t k = 0; k < n && !of && frames[k].inlined; k++)
		of = function_named(frames[k].function);
	if (!of && n)
		of = function_by_slow(r, i);
	if (!changes_as(of, change))
		return true;
	return add_event(r, i, of, object_of(r->machine->changed(r, i), of), frames[n - 1].line);
}

static bool add_call(struct lock_reading *r, size_t i, const struct lock_flow *flow)
{
	struct go_frame frames[MAX_INLINED];
	const struct lock_function *of;
	struct go_func callee;
	size_t n;

	if (!find_callee(r, i, flow, &callee))
		return true;
	r->code->insns[i].ends |= is_endless(callee.name);
	of = function_named(callee.name);
	if (!of && strcmp(callee.name, "sync.(*WaitGroup).Add"))
		return true;
	n = pclntab_frames(&r->img->functions, lock_address(r, i) | STACK_PC_EXACT, frames,
			   MAX_INLINED);
	/* Done is inlined, and is Add of -1. */
	if (!of && n)
		of = function_named(frames[0].function);
	if (!of)
		return true;
	return add_event(r, i, of, r->machine->argument(r, i), n ? frames[n - 1].line : 0);
}

/* ---- the flow ---- */

static int compare_offset(const void *key, const void *item)
{
	uint32_t offset = *(const uint32_t *)key;
	const struct lock_insn *insn = item;

	return (offset > insn->offset) - (offset < insn->offset);
}

static uint32_t insn_at(const struct lock_code *code, uint64_t offset)
{
	uint32_t key = offset;
	const struct lock_insn *found;

	if (offset > UINT32_MAX || !code->count)
		return LOCK_NO_TARGET;
	found = bsearch(&key, code->insns, code->count, sizeof(*code->insns), compare_offset);
	return found ? found - code->insns : LOCK_NO_TARGET;
}

/* Reads all instructions; `target` is an offset until all are read. */
static bool list_insns(struct lock_reading *r, size_t size)
{
	struct lock_code *code = r->code;
	struct lock_flow flow;

	for (size_t at = 0; at < size; at += flow.length) {
		struct lock_insn one = {.offset = at,
					.target = LOCK_NO_TARGET,
					.from = LOCK_NO_TARGET};

		if (!r->machine->flow(r->bytes + at, size - at, &flow)) {
			code->opaque = true;
			return true;
		}
		one.length = flow.length;
		one.ends = flow.ends;
		code->opaque |= flow.is_computed;
		if (flow.branches)
			one.target = at + flow.distance;
		if (!array_reserve(&code->insns, &code->capacity, code->count + 1))
			return false;
		code->insns[code->count++] = one;
	}
	return true;
}

/* From offsets to instructions. */
static void resolve_targets(struct lock_code *code)
{
	for (size_t i = 0; i < code->count; i++) {
		struct lock_insn *insn = &code->insns[i], *to;

		if (!lock_has_target(insn))
			continue;
		insn->target = insn_at(code, insn->target);
		if (!lock_has_target(insn) || insn->target <= i)
			continue;
		to = &code->insns[insn->target];
		to->is_join = to->from != LOCK_NO_TARGET;
		if (!to->is_join)
			to->from = i;
	}
}

static bool understand(struct lock_reading *r)
{
	struct lock_code *code = r->code;
	struct lock_flow flow;

	resolve_targets(code);
	for (size_t i = 0; i < code->count; i++) {
		if (!flow_at(r, i, &flow))
			continue;
		if (!(flow.calls ? add_call(r, i, &flow) : add_inlined(r, i)))
			return false;
	}
	return true;
}

/* The code of one function, without what those do that it calls; r->code is NULL when it cannot be
 * read. */
static struct error *must_check read_alone(struct lock_reading *r)
{
	size_t size = r->f->end > r->f->entry ? r->f->end - r->f->entry : 0;

	if (!size || size > MAX_FUNCTION_SIZE)
		return NULL;
	r->machine = r->img->machine == MACHINE_AMD64 ? &lock_amd64 : &lock_arm64;
	r->bytes = image_bytes(r->img, r->f->entry, size);
	if (!r->bytes)
		return NULL;
	r->code = calloc(1, sizeof(*r->code));
	if (!r->code)
		return &error_no_memory;
	r->code->entry = r->f->entry;
	return list_insns(r, size) && understand(r) ? NULL : &error_no_memory;
}

bool lock_code_has(const struct lock_code *code, enum lock_action action)
{
	for (size_t i = 0; code && i < code->event_count; i++)
		if (code->events[i].action == action)
			return true;
	return false;
}

/* ---- functions that free what their caller took ---- */

/* It frees locks, and takes none. */
static struct error *must_check is_release(const struct lock_reading *caller,
					   const struct go_func *f, bool *ret)
{
	struct lock_reading r = {.img = caller->img, .f = f, .minor = caller->minor};
	struct error *err = read_alone(&r);

	*ret = !err && lock_code_has(r.code, LOCK_FREES) && !lock_code_has(r.code, LOCK_TAKES);
	lock_code_destroy(r.code);
	return err;
}

/* A call of such a function may free any lock. What that calls in turn is not looked at. */
static struct error *must_check add_releases(struct lock_reading *r)
{
	static const struct lock_function release = {"", LOCK_FREES, false, 0, NULL};
	struct error *err = NULL;
	struct lock_flow flow;
	size_t calls = 0;

	for (size_t i = 0; !err && i < r->code->count && calls < MAX_CALLS; i++) {
		struct go_func callee;
		bool frees = false;

		if (r->code->insns[i].event || !flow_at(r, i, &flow) ||
		    !find_callee(r, i, &flow, &callee) || !strncmp(callee.name, "runtime.", 8) ||
		    in_sync(callee.name))
			continue;
		calls++;
		err = is_release(r, &callee, &frees);
		if (!err && frees && !add_event(r, i, &release, (struct lock_operand){0}, 0))
			err = &error_no_memory;
	}
	r->code->opaque |= calls == MAX_CALLS;
	return err;
}

struct error *lock_code_read(const struct image *img, int minor, const struct go_func *f,
			     struct lock_code **ret)
{
	struct lock_reading r = {.img = img, .f = f, .minor = minor};
	struct error *err = read_alone(&r);

	*ret = NULL;
	if (!err && lock_code_has(r.code, LOCK_TAKES))
		err = add_releases(&r);
	if (!err && r.code && r.code->event_count) {
		*ret = r.code;
		return NULL;
	}
	lock_code_destroy(r.code);
	return err;
}

void lock_code_destroy(struct lock_code *code)
{
	if (!code)
		return;
	free(code->insns);
	free(code->events);
	free(code);
}

static bool is_taken_now(const struct lock_question *q, const struct lock_event *e)
{
	return q->in_progress && e->line == q->in_progress && e->action != LOCK_FREES;
}

/* What is known after an instruction, from what is known before it. */
static unsigned int behind(const struct lock_code *code, const struct lock_question *q,
			   const struct lock_insn *insn, unsigned int known)
{
	const struct lock_event *e = insn->event ? &code->events[insn->event - 1] : NULL;
	uint64_t address = e ? q->addresses[insn->event - 1] : 0;

	if (!e || e->reads != q->reads || e->action == LOCK_DONE || is_taken_now(q, e))
		return known;
	/* The called function may free any lock. */
	if (!address && e->action == LOCK_FREES)
		return known & LOCK_IS_TAKEN ? known | LOCK_IS_FREE : known;
	if (address != q->lock)
		return known;
	if (e->action == LOCK_TRIES)
		return known | LOCK_IS_TAKEN;
	return e->action == LOCK_TAKES ? LOCK_IS_TAKEN : LOCK_IS_FREE;
}

/* As if each jump could lead to each instruction: so it is with a jump table. */
static unsigned int guess(const struct lock_code *code, const struct lock_question *q)
{
	unsigned int known = q->before;

	for (size_t i = 0; i < code->count; i++)
		known |= behind(code, q, &code->insns[i], known);
	return known;
}

struct work {
	uint8_t *known; /* before each instruction */
	uint32_t *todo;
	size_t count;
};

static void reach(struct work *w, uint32_t i, unsigned int known)
{
	if ((w->known[i] | known) == w->known[i])
		return;
	/* Each is added at most twice: once for each of two bits. */
	w->known[i] |= known;
	w->todo[w->count++] = i;
}

struct error *lock_code_ask(const struct lock_code *code, const struct lock_question *q,
			    unsigned int *ret)
{
	_cleanup_free_ uint8_t *known = calloc(code->count + 1, 1);
	_cleanup_free_ uint32_t *todo = calloc(2 * code->count + 2, sizeof(*todo));
	struct work w = {known, todo, 0};

	if (!known || !todo)
		return &error_no_memory;
	*ret = guess(code, q);
	if (code->opaque || !code->count)
		return NULL;
	reach(&w, 0, q->before);
	while (w.count) {
		uint32_t i = todo[--w.count];
		const struct lock_insn *insn = &code->insns[i];
		unsigned int after = behind(code, q, insn, known[i]);

		if (insn->target != LOCK_NO_TARGET)
			reach(&w, insn->target, after);
		if (!insn->ends && i + 1 < code->count)
			reach(&w, i + 1, after);
	}
	/* The return address is behind the call that the frame is in. */
	for (size_t i = 0; i < code->count; i++)
		if (code->entry + code->insns[i].offset + code->insns[i].length ==
		    q->return_address)
			*ret = known[i];
	return NULL;
}
