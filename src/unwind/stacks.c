#include "unwind/stacks.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/map.h"
#include "unwind/steps.h"
#include "unwind/walk.h"

#define MAX_TEMPLATES (1u << 18)
#define MAX_MARKS (1u << 22)
#define TEMPLATE_BUCKETS (1u << 16)
/* Longer chains are other goroutines' business: it is cheaper to walk. */
#define MAX_CHAIN 64
#define BLOCK_WORDS (1u << 16)
/* A hostile target can produce any number of long stacks: beyond this many words (1 GB) only short
 * synthetic stacks are added. stacks_limit() sets less. */
#define MAX_WORDS (1u << 27)
#define SHORT_STACK 3

struct entry {
	uint64_t *pcs;
	uint64_t hash;
	uint32_t count;
	uint32_t next;
	bool truncated;
};

/* The layout of a stack that begins at `pc` and has `size` bytes in use. */
struct template
{
	uint64_t pc;
	uint64_t start_pc; /* of a truncated stack; else 0 */
	uint32_t size;
	uint32_t next;
	uint32_t stack;
	uint32_t first; /* in marks: where the return addresses lie, all but the innermost */
	uint32_t count;
};

struct stacks {
	struct steps steps;
	walk_step *step;
	enum machine machine;
	struct unwinding by;

	struct entry *entries; /* entries[0] is STACK_NONE */
	size_t count;
	size_t capacity;
	uint32_t *buckets;
	size_t bucket_count;
	uint64_t **blocks; /* storage of the entries' pcs */
	size_t block_count;
	size_t block_capacity;
	size_t block_used;
	size_t words; /* of all entries */
	size_t most_words;
	uint64_t dropped;

	struct template *templates; /* templates[0] ends the chains */
	size_t template_count;
	size_t template_capacity;
	uint32_t template_heads[TEMPLATE_BUCKETS];
	uint16_t *marks; /* in words, from the stack pointer on */
	size_t mark_count;
	size_t mark_capacity;

	uint64_t *pcs; /* of the walk under way */
	size_t pc_capacity;
	uint16_t *found; /* likewise */
	size_t found_capacity;
};

struct stacks *stacks_create(const struct pclntab *functions, enum machine machine)
{
	_cleanup_stacks_ struct stacks *s = calloc(1, sizeof(*s));

	if (!s || !array_reserve(&s->entries, &s->capacity, 1) ||
	    !array_reserve(&s->templates, &s->template_capacity, 1))
		return NULL;
	s->count = s->template_count = 1;
	s->most_words = MAX_WORDS;
	s->steps.functions = functions;
	s->machine = machine;
	s->step = walk_step_for(machine, UNWIND_PCSP);
	return take_ptr(s);
}

void stacks_unwind_by(struct stacks *s, const struct unwinding *by)
{
	s->by = *by;
	s->steps.frames = by->frames;
	s->step = walk_step_for(s->machine, by->method);
}

const struct unwinding *stacks_unwinding(const struct stacks *s)
{
	return &s->by;
}

void stacks_destroy(struct stacks *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->block_count; i++)
		free(s->blocks[i]);
	free(s->blocks);
	free(s->entries);
	free(s->buckets);
	free(s->templates);
	free(s->marks);
	free(s->steps.slots);
	free(s->pcs);
	free(s->found);
	free(s);
}

/* Room for words that stay where they are. */
static uint64_t *words_take(struct stacks *s, size_t count)
{
	size_t block = count > BLOCK_WORDS ? count : BLOCK_WORDS;
	uint64_t *words;

	if (!s->block_count || s->block_used + count > BLOCK_WORDS) {
		if (!array_reserve(&s->blocks, &s->block_capacity, s->block_count + 1))
			return NULL;
		words = malloc(block * sizeof(*words));
		if (!words)
			return NULL;
		s->blocks[s->block_count++] = words;
		s->block_used = 0;
	}
	words = s->blocks[s->block_count - 1] + s->block_used;
	s->block_used += count;
	return words;
}

static bool rehash(struct stacks *s, size_t bucket_count)
{
	uint32_t *buckets = calloc(bucket_count, sizeof(*buckets));

	if (!buckets)
		return false;
	free(s->buckets);
	s->buckets = buckets;
	s->bucket_count = bucket_count;
	for (size_t i = 1; i < s->count; i++) {
		uint32_t *head = &buckets[s->entries[i].hash & (bucket_count - 1)];

		s->entries[i].next = *head;
		*head = i;
	}
	return true;
}

static bool has_truncation(const uint64_t *pcs, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (pcs[i] == STACK_PC_TRUNCATED)
			return true;
	return false;
}

/* The substitute for a stack that is not kept: only its start function is known. */
static struct error *intern_other(struct stacks *s, const uint64_t *pcs, size_t count,
				  uint32_t *ret)
{
	const uint64_t words[SHORT_STACK] = {STACK_PC_OTHER, pcs[count - 2], pcs[count - 1]};

	s->dropped++;
	*ret = STACK_NONE;
	/* A genuine program has few functions where goroutines start. */
	return s->words > 2 * s->most_words ? NULL : stacks_intern(s, words, SHORT_STACK, ret);
}

struct error *stacks_intern(struct stacks *s, const uint64_t *pcs, size_t count, uint32_t *ret)
{
	uint64_t hash = hash_bytes(pcs, count * sizeof(*pcs));
	struct entry e = {.hash = hash, .count = count};
	uint32_t *head;

	if (s->count >= s->bucket_count && !rehash(s, s->bucket_count ? s->bucket_count * 2 : 1024))
		return &error_no_memory;
	head = &s->buckets[hash & (s->bucket_count - 1)];
	for (uint32_t i = *head; i; i = s->entries[i].next) {
		const struct entry *old = &s->entries[i];

		if (old->hash == hash && old->count == count &&
		    !memcmp(old->pcs, pcs, count * sizeof(*pcs))) {
			*ret = i;
			return NULL;
		}
	}
	if (s->words + count > s->most_words && count > SHORT_STACK)
		return intern_other(s, pcs, count, ret);
	e.pcs = words_take(s, count);
	if (!e.pcs || !array_reserve(&s->entries, &s->capacity, s->count + 1))
		return &error_no_memory;
	memcpy(e.pcs, pcs, count * sizeof(*pcs));
	e.truncated = has_truncation(pcs, count);
	e.next = *head;
	s->entries[s->count] = e;
	s->words += count;
	*head = *ret = s->count++;
	return NULL;
}

struct stack stacks_get(const struct stacks *s, uint32_t id)
{
	const struct entry *e = &s->entries[id < s->count ? id : STACK_NONE];

	return (struct stack){e->pcs, e->count, e->truncated};
}

void stacks_limit(struct stacks *s, size_t words)
{
	s->most_words = words;
}

uint64_t stacks_dropped(const struct stacks *s)
{
	return s->dropped;
}

size_t stacks_count(const struct stacks *s)
{
	return s->count - 1;
}

static uint32_t *template_head(struct stacks *s, uint64_t pc, size_t size)
{
	return &s->template_heads[hash_u64(pc ^ ((uint64_t)size << 40)) & (TEMPLATE_BUCKETS - 1)];
}

/* Whether the stack's return addresses lie where the marks say. */
static bool marks_fit(const struct stack_memory *m, const uint16_t *marks, size_t count,
		      const struct entry *stack)
{
	uint64_t differ = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t word;

		memcpy(&word, m->bytes + marks[i] * sizeof(word), sizeof(word));
		differ |= word ^ stack_pc_address(stack->pcs[i + 1]);
	}
	return !differ;
}

static bool template_fits(const struct stacks *s, const struct template *t,
			  const struct stack_memory *m)
{
	return t->pc == m->pc && t->size == m->size &&
	       (!t->start_pc || t->start_pc == m->start_pc) &&
	       (!t->count || marks_fit(m, s->marks + t->first, t->count, &s->entries[t->stack]));
}

/* Whether a template made of this walk finds the same stack: it goes by the memory alone. */
static bool is_template(const struct stacks *s, const struct stack_memory *m, size_t count,
			uint32_t stack)
{
	for (size_t i = 0; i < count; i++)
		if ((s->found[i] + 1ull) * 8 > m->size)
			return false;
	return count < s->entries[stack].count && marks_fit(m, s->found, count, &s->entries[stack]);
}

/* Remembers the walk that found `count` marks. Without memory, or when there are too many, the next
 * such stack is walked again. */
static void template_add(struct stacks *s, const struct stack_memory *m, size_t count,
			 uint32_t stack)
{
	uint32_t *head = template_head(s, m->pc, m->size);

	if (!is_template(s, m, count, stack) || s->template_count >= MAX_TEMPLATES ||
	    s->mark_count + count > MAX_MARKS ||
	    !array_reserve(&s->templates, &s->template_capacity, s->template_count + 1) ||
	    !array_reserve(&s->marks, &s->mark_capacity, s->mark_count + count))
		return;
	if (count)
		memcpy(s->marks + s->mark_count, s->found, count * sizeof(*s->marks));
	s->templates[s->template_count] = (struct template){
		.pc = m->pc,
		.start_pc = s->entries[stack].truncated ? m->start_pc : 0,
		.size = m->size,
		.next = *head,
		.stack = stack,
		.first = s->mark_count,
		.count = count,
	};
	s->mark_count += count;
	*head = s->template_count++;
}

/* Puts a word behind the walk's others. */
static bool push_pc(struct stacks *s, size_t n, uint64_t pc)
{
	if (!array_reserve(&s->pcs, &s->pc_capacity, n + 1))
		return false;
	s->pcs[n] = pc;
	return true;
}

static bool push_mark(struct stacks *s, size_t *n, size_t at)
{
	if (at == WALK_IN_REGISTER)
		return true;
	if (!array_reserve(&s->found, &s->found_capacity, *n + 1))
		return false;
	/* Out of reach: it fits no stack. */
	s->found[(*n)++] = at % 8 || at / 8 > UINT16_MAX ? UINT16_MAX : at / 8;
	return true;
}

/* The stack goes on beyond the copy: its start function is known all the same. */
static struct error *end_truncated(struct stacks *s, const struct stack_memory *m, size_t *n)
{
	if (!push_pc(s, (*n)++, STACK_PC_TRUNCATED))
		return &error_no_memory;
	if (m->start_pc && !push_pc(s, (*n)++, m->start_pc | STACK_PC_EXACT))
		return &error_no_memory;
	return NULL;
}

/* Walks to the end. *ret_pcs words are then in s->pcs and *ret_marks in s->found; *ret_pcs is 0
 * when the bytes are no stack. */
static struct error *walk_all(struct stacks *s, const struct stack_memory *m, size_t *ret_pcs,
			      size_t *ret_marks)
{
	struct walk w = walk_begin(m, s->by.method);
	size_t n = 0;

	*ret_pcs = *ret_marks = 0;
	for (;;) {
		uint64_t word;
		enum walk_result result = walk_frame(&w, &s->steps, s->step, n, &word);

		if (result == WALK_TORN)
			return NULL;
		if (result == WALK_NO_MEMORY || !push_pc(s, n++, word))
			return &error_no_memory;
		if (result != WALK_NEXT) {
			*ret_pcs = n;
			return result == WALK_CUT ? end_truncated(s, m, ret_pcs) : NULL;
		}
		if (!push_mark(s, ret_marks, w.ret_at))
			return &error_no_memory;
	}
}

struct error *stacks_unwind(struct stacks *s, const struct stack_memory *m, uint32_t *ret)
{
	size_t pcs, marks, chain = 0;
	struct error *err;

	/* Templates are of return addresses. */
	for (uint32_t i = m->exact_pc ? 0 : *template_head(s, m->pc, m->size); i;
	     i = s->templates[i].next) {
		if (template_fits(s, &s->templates[i], m)) {
			*ret = s->templates[i].stack;
			return NULL;
		}
		chain++;
	}
	*ret = STACK_NONE;
	err = walk_all(s, m, &pcs, &marks);
	if (err || !pcs)
		return err;
	err = stacks_intern(s, s->pcs, pcs, ret);
	/* Registers and frame pointers are not in the template's key. */
	if (!err && *ret != STACK_NONE && s->entries[*ret].count == pcs && chain < MAX_CHAIN &&
	    !m->lr && !m->exact_pc && s->by.method != UNWIND_FP)
		template_add(s, m, marks, *ret);
	return err;
}
