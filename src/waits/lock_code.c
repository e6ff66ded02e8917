#include "waits/lock_code.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "image/amd64.h"

#define MAX_FUNCTION_SIZE (64u << 10)
#define MAX_EVENTS 512
/* Calls in one function, whose functions are looked at. */
#define MAX_CALLS 512
#define MAX_INLINED 64
/* The number of instructions that are searched: before for an operand, after for a store of it. */
#define BACK 64
#define AHEAD 32
/* The slow half of an inlined function is called within this many instructions. */
#define SLOW_WITHIN 8
#define NO_TARGET UINT32_MAX
/* The offset of readerCount in sync.RWMutex. */
#define RWMUTEX_READER_COUNT 16

/* The function whose code is read. */
struct reading {
	const struct image *img;
	const struct go_func *f;
	const uint8_t *bytes;
	struct lock_code *code;
};

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

/* ---- where an operand comes from ---- */

static bool has_index(const uint8_t *code, const struct amd64_insn *insn)
{
	size_t at = 0;

	while (at < insn->length && code[at] != insn->opcode)
		at++;
	if (at + 2 >= insn->length || (code[at + 1] & 7) != 4)
		return false;
	return (code[at + 2] >> 3 & 7) != 4 || insn->rex & 2;
}

static bool decode_at(const struct reading *r, size_t i, struct amd64_insn *ret)
{
	const struct lock_insn *insn = &r->code->insns[i];

	return amd64_decode(r->bytes + insn->offset, insn->length, ret);
}

static const uint8_t *bytes_at(const struct reading *r, size_t i)
{
	return r->bytes + r->code->insns[i].offset;
}

/* The offset from the CFA of a place on the stack, from its offset from RSP. */
static bool from_cfa(const struct reading *r, size_t i, int32_t displacement, int64_t *ret)
{
	int32_t delta = pclntab_sp_delta(r->f, r->f->entry + r->code->insns[i].offset);

	*ret = (int64_t)displacement - delta - 8;
	return delta >= 0;
}

/* A store of this register to the stack. */
static bool is_store(const uint8_t *code, const struct amd64_insn *insn, unsigned int reg)
{
	return insn->map == AMD64_ONE_BYTE && insn->opcode == 0x89 && insn->is_memory &&
	       insn->is_wide && insn->base == MODRM_RSP && insn->reg == reg &&
	       !has_index(code, insn);
}

static bool is_slot(const struct reading *r, size_t i, const struct amd64_insn *insn,
		    struct lock_operand *o)
{
	o->base = LOCK_SLOT;
	return from_cfa(r, i, insn->displacement, &o->at);
}

static uint64_t address_behind(const struct reading *r, size_t i, int32_t displacement)
{
	const struct lock_insn *insn = &r->code->insns[i];

	return r->f->entry + insn->offset + insn->length + displacement;
}

/* ADD of a constant to this register. */
static bool is_add(const uint8_t *code, const struct amd64_insn *insn, unsigned int reg,
		   int64_t *ret)
{
	int32_t value;

	if (insn->map != AMD64_ONE_BYTE || insn->is_memory || !insn->is_wide || insn->reg & 7 ||
	    insn->rm != reg || (insn->opcode != 0x83 && insn->opcode != 0x81))
		return false;
	memcpy(&value, code + insn->length - sizeof(value), sizeof(value));
	*ret = insn->opcode == 0x83 ? (int8_t)code[insn->length - 1] : value;
	return true;
}

enum step { STEP_ON, STEP_FOUND, STEP_LOST };

/* The instruction that computes the register: continues with its operands. */
static enum step step_back(const struct reading *r, size_t i, const struct amd64_insn *insn,
			   unsigned int *reg, struct lock_operand *o)
{
	const uint8_t *code = bytes_at(r, i);
	int64_t constant;

	if (is_add(code, insn, *reg, &constant)) {
		o->plus += constant;
		return STEP_ON;
	}
	if (insn->map == AMD64_ONE_BYTE && !insn->is_memory && insn->is_wide &&
	    ((insn->opcode == 0x8b && insn->reg == *reg) ||
	     (insn->opcode == 0x89 && insn->rm == *reg))) {
		*reg = insn->opcode == 0x8b ? insn->rm : insn->reg;
		return STEP_ON;
	}
	if ((!amd64_is_lea(insn) && !amd64_is_load(insn)) || !insn->is_wide ||
	    has_index(code, insn) || insn->base == MODRM_NONE)
		return STEP_LOST;
	if (amd64_is_load(insn) && insn->base == MODRM_RSP)
		return is_slot(r, i, insn, o) ? STEP_FOUND : STEP_LOST;
	if (insn->base == MODRM_RSP)
		return STEP_LOST;
	if (amd64_is_load(insn)) {
		if (o->dereferenced)
			return STEP_LOST;
		o->dereferenced = true;
		o->behind = o->plus;
		o->plus = 0;
	}
	if (insn->base == MODRM_PC) {
		o->base = LOCK_GLOBAL;
		o->at = (int64_t)address_behind(r, i, insn->displacement);
		return STEP_FOUND;
	}
	o->plus += insn->displacement;
	*reg = insn->base;
	return STEP_ON;
}

/* A store of the register after instruction k, before the register changes. */
static struct lock_operand stored_later(const struct reading *r, size_t k, unsigned int reg,
					int64_t plus)
{
	struct lock_operand o = {.plus = plus};
	struct amd64_insn insn;

	for (size_t i = k + 1; i < r->code->count && i <= k + AHEAD; i++) {
		/* Behind a branch the store may not be reached, and the slot has an older value. */
		if (!decode_at(r, i, &insn) || r->code->insns[i].ends ||
		    r->code->insns[i].target != NO_TARGET || amd64_is_call(&insn))
			break;
		if (is_store(bytes_at(r, i), &insn, reg) && is_slot(r, i, &insn, &o))
			return o;
		if (amd64_written(&insn) == (enum modrm_register)reg)
			break;
	}
	return (struct lock_operand){0};
}

/* Where the value of the register at instruction k comes from. */
static struct lock_operand find_operand(const struct reading *r, size_t k, unsigned int reg,
					int64_t plus)
{
	struct lock_operand o = {.plus = plus};
	unsigned int first = reg;
	enum step step = STEP_ON;

	for (size_t i = k; step == STEP_ON && i-- > 0 && k - i <= BACK;) {
		struct amd64_insn insn;

		if (!decode_at(r, i, &insn) || r->code->insns[i].ends || amd64_is_call(&insn) ||
		    (insn.map == AMD64_ONE_BYTE && insn.opcode == 0xff && (insn.reg & 7) == 2))
			break;
		if (is_store(bytes_at(r, i), &insn, reg) && is_slot(r, i, &insn, &o))
			return o;
		if (amd64_written(&insn) == (enum modrm_register)reg)
			step = step_back(r, i, &insn, &reg, &o);
	}
	if (step == STEP_FOUND)
		return o;
	return stored_later(r, k, first, plus);
}

/* ---- events ---- */

static bool add_event(struct reading *r, size_t i, const struct lock_function *of,
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

static bool has_lock_prefix(const uint8_t *code, size_t length)
{
	return length > 3 && (code[0] == 0xf0 || (code[0] == 0x66 && code[1] == 0xf0));
}

/* The function that the first call calls, within `count` instructions from i on. */
static const char *first_call(const struct reading *r, size_t i, size_t count, struct go_func *f)
{
	struct amd64_insn insn;

	for (size_t k = i; k < r->code->count && k < i + count; k++) {
		if (!decode_at(r, k, &insn))
			return NULL;
		if (amd64_is_call(&insn))
			return pclntab_find(&r->img->functions, address_behind(r, k, insn.relative),
					    f)
				       ? f->name
				       : NULL;
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
static const struct lock_function *function_by_slow(const struct reading *r, size_t i)
{
	struct go_func f;

	for (size_t k = i + 1; k < r->code->count && k <= i + SLOW_WITHIN; k++) {
		uint32_t target = r->code->insns[k].target;
		const char *name;

		if (target == NO_TARGET)
			continue;
		name = first_call(r, k + 1, SLOW_WITHIN, &f);
		if (name && function_of_slow(name))
			return function_of_slow(name);
		name = first_call(r, target, SLOW_WITHIN, &f);
		return name ? function_of_slow(name) : NULL;
	}
	return NULL;
}

/* CMPXCHG or XADD of memory by inlined code of package sync. */
static bool add_inlined(struct reading *r, size_t i, const struct amd64_insn *insn)
{
	struct go_frame frames[MAX_INLINED];
	const struct lock_function *of = NULL;
	size_t n;

	if (insn->map != AMD64_0F || (insn->opcode != 0xb1 && insn->opcode != 0xc1) ||
	    !insn->is_memory || !has_lock_prefix(bytes_at(r, i), insn->length))
		return true;
	n = pclntab_frames(&r->img->functions,
			   (r->f->entry + r->code->insns[i].offset) | STACK_PC_EXACT, frames,
			   MAX_INLINED);
	for (size_t k = 0; k < n && !of && frames[k].inlined; k++)
		of = function_named(frames[k].function);
	if (!of && n)
		of = function_by_slow(r, i);
	/* Unlock frees by XADD, Lock takes by CMPXCHG; of RLock and RUnlock both are XADD. */
	if (!of || of->action == LOCK_DONE ||
	    (!of->reads && (insn->opcode == 0xc1) != (of->action == LOCK_FREES)))
		return true;
	if (insn->base == MODRM_PC)
		return add_event(r, i, of,
				 (struct lock_operand){
					 .base = LOCK_GLOBAL,
					 .at = (int64_t)address_behind(r, i, insn->displacement) -
					       of->word},
				 frames[n - 1].line);
	if (insn->base == MODRM_NONE || insn->base == MODRM_RSP)
		return true;
	return add_event(r, i, of, find_operand(r, i, insn->base, insn->displacement - of->word),
			 frames[n - 1].line);
}

static bool add_call(struct reading *r, size_t i, const struct amd64_insn *insn)
{
	struct go_frame frames[MAX_INLINED];
	const struct lock_function *of;
	struct go_func callee;
	size_t n;

	if (!pclntab_find(&r->img->functions, address_behind(r, i, insn->relative), &callee))
		return true;
	r->code->insns[i].ends |= is_endless(callee.name);
	of = function_named(callee.name);
	if (!of && strcmp(callee.name, "sync.(*WaitGroup).Add"))
		return true;
	n = pclntab_frames(&r->img->functions,
			   (r->f->entry + r->code->insns[i].offset) | STACK_PC_EXACT, frames,
			   MAX_INLINED);
	/* Done is inlined, and is Add of -1. */
	if (!of && n)
		of = function_named(frames[0].function);
	if (!of)
		return true;
	return add_event(r, i, of, find_operand(r, i, 0 /* RAX */, 0), n ? frames[n - 1].line : 0);
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
		return NO_TARGET;
	found = bsearch(&key, code->insns, code->count, sizeof(*code->insns), compare_offset);
	return found ? found - code->insns : NO_TARGET;
}

static bool is_branch(const struct amd64_insn *insn, const uint8_t *code, int32_t *ret)
{
	bool near = insn->map == AMD64_0F && !insn->is_vector && (insn->opcode & 0xf0) == 0x80;
	bool one = insn->map == AMD64_ONE_BYTE;

	if (near || (one && insn->opcode == 0xe9)) {
		*ret = insn->relative;
		return true;
	}
	if (one &&
	    ((insn->opcode & 0xf0) == 0x70 || insn->opcode == 0xeb || insn->opcode == 0xe3)) {
		*ret = (int8_t)code[insn->length - 1];
		return true;
	}
	return false;
}

static bool is_end(const struct amd64_insn *insn)
{
	return amd64_is_jump(insn) || (insn->map == AMD64_ONE_BYTE && insn->opcode == 0xcc);
}

/* A jump by a register or a table. */
static bool is_computed(const struct amd64_insn *insn)
{
	return insn->map == AMD64_ONE_BYTE && insn->opcode == 0xff && (insn->reg & 7) == 4;
}

/* Reads all instructions; `target` is an offset until all are read. */
static bool list_insns(struct reading *r, size_t size)
{
	struct lock_code *code = r->code;
	struct amd64_insn insn;

	for (size_t at = 0; at < size; at += insn.length) {
		int32_t distance;
		struct lock_insn one = {.offset = at, .target = NO_TARGET};

		if (!amd64_decode(r->bytes + at, size - at, &insn)) {
			code->opaque = true;
			return true;
		}
		one.length = insn.length;
		one.ends = is_end(&insn);
		code->opaque |= is_computed(&insn);
		if (is_branch(&insn, r->bytes + at, &distance))
			one.target = at + insn.length + distance;
		if (!array_reserve(&code->insns, &code->capacity, code->count + 1))
			return false;
		code->insns[code->count++] = one;
	}
	return true;
}

static bool understand(struct reading *r)
{
	struct lock_code *code = r->code;
	struct amd64_insn insn;

	for (size_t i = 0; i < code->count; i++)
		if (code->insns[i].target != NO_TARGET)
			code->insns[i].target = insn_at(code, code->insns[i].target);
	for (size_t i = 0; i < code->count; i++) {
		if (!decode_at(r, i, &insn))
			continue;
		if (!(amd64_is_call(&insn) ? add_call(r, i, &insn) : add_inlined(r, i, &insn)))
			return false;
	}
	return true;
}

/* The code of one function, without what those do that it calls; r->code is NULL when it cannot be
 * read. */
static struct error *must_check read_alone(struct reading *r)
{
	size_t size = r->f->end > r->f->entry ? r->f->end - r->f->entry : 0;

	if (r->img->machine != MACHINE_AMD64 || !size || size > MAX_FUNCTION_SIZE)
		return NULL;
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
static struct error *must_check is_release(const struct image *img, const struct go_func *f,
					   bool *ret)
{
	struct reading r = {.img = img, .f = f};
	struct error *err = read_alone(&r);

	*ret = !err && lock_code_has(r.code, LOCK_FREES) && !lock_code_has(r.code, LOCK_TAKES);
	lock_code_destroy(r.code);
	return err;
}

/* A call of such a function may free any lock. What that calls in turn is not looked at. */
static struct error *must_check add_releases(struct reading *r)
{
	static const struct lock_function release = {"", LOCK_FREES, false, 0, NULL};
	struct error *err = NULL;
	struct amd64_insn insn;
	size_t calls = 0;

	for (size_t i = 0; !err && i < r->code->count && calls < MAX_CALLS; i++) {
		struct go_func callee;
		bool frees = false;

		if (r->code->insns[i].event || !decode_at(r, i, &insn) || !amd64_is_call(&insn) ||
		    !pclntab_find(&r->img->functions, address_behind(r, i, insn.relative),
				  &callee) ||
		    !strncmp(callee.name, "runtime.", 8) || in_sync(callee.name))
			continue;
		calls++;
		err = is_release(r->img, &callee, &frees);
		if (!err && frees && !add_event(r, i, &release, (struct lock_operand){0}, 0))
			err = &error_no_memory;
	}
	r->code->opaque |= calls == MAX_CALLS;
	return err;
}

struct error *lock_code_read(const struct image *img, const struct go_func *f,
			     struct lock_code **ret)
{
	struct reading r = {.img = img, .f = f};
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

		if (insn->target != NO_TARGET)
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
