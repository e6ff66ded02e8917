#include "annotate/notes.h"

#include <stdlib.h>

#include "base/array.h"

/* A broken DWARF may have any number of variables everywhere. */
#define MAX_NOTES (4u << 20)

static bool add(struct notes *notes, struct note note)
{
	if (note.end <= note.start || notes->count >= MAX_NOTES)
		return true;
	if (!array_reserve(&notes->items, &notes->capacity, notes->count + 1))
		return false;
	notes->items[notes->count++] = note;
	return true;
}

static bool add_word(struct notes *notes, enum note_kind kind, size_t frame, uint64_t address)
{
	return add(notes, (struct note){address, address + 8, kind, frame, NULL});
}

static bool add_returns(const struct annotate_input *in, struct notes *notes)
{
	for (size_t i = 0; i + 1 < in->frames->count; i++) {
		const struct frame *f = &in->frames->items[i];

		if (f->return_at && !add_word(notes, NOTE_RETURN, i, f->return_at))
			return false;
		if (f[1].sp > f->cfa && in->machine == MACHINE_ARM64 &&
		    !add_word(notes, NOTE_INTERRUPTED_LR, i, f->cfa))
			return false;
	}
	return true;
}

/*
 * Where this frame would save its caller's frame pointer; 0: nowhere, or not in the copy. amd64:
 * right below the return address. arm64: right below the frame's SP
 * (cmd/internal/obj/arm64/obj7.go), which belongs to the callee. A function without a frame saves
 * none.
 */
static uint64_t frame_pointer_slot(const struct annotate_input *in, size_t i)
{
	const struct frame *f = &in->frames->items[i];
	uint64_t slot;

	if (!f->cfa || f->cfa <= f->sp)
		return 0;
	slot = in->machine == MACHINE_AMD64 ? f->cfa - 16 : f->sp - 8;
	if (in->machine == MACHINE_AMD64 && slot < f->sp)
		return 0;
	return slot >= in->memory.sp ? slot : 0;
}

/*
 * Frame pointers form a chain: each is the address of an outer frame's slot, and the outermost is
 * 0. So what lies at a slot is one when it leads to another; a function that saved none (assembly
 * without a frame) is not in the chain. `outer` are the slots of the outer frames, the highest
 * first.
 */
static bool leads_outward(const uint64_t *outer, size_t count, uint64_t value)
{
	size_t lo = 0, hi = count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (outer[mid] == value)
			return true;
		if (outer[mid] > value)
			lo = mid + 1;
		else
			hi = mid;
	}
	return !count && !value;
}

/* In the middle of a prologue the slot may hold a value of an earlier call. The register decides.
 */
static bool is_set_up(const struct annotate_input *in, size_t i, uint64_t slot)
{
	bool interrupted = in->frames->items[i].word & STACK_PC_EXACT;

	return i || !interrupted || !in->fp || in->fp == slot;
}

static bool add_frame_pointers(const struct annotate_input *in, struct notes *notes)
{
	uint64_t *outer = malloc((in->frames->count + 1) * sizeof(*outer));
	size_t count = 0;
	bool added = outer;

	for (size_t i = in->frames->count; added && i-- > 0;) {
		uint64_t slot = frame_pointer_slot(in, i), value;

		if (!slot || !input_word(in, slot, &value))
			continue;
		if (is_set_up(in, i, slot) && leads_outward(outer, count, value))
			added = add_word(notes, NOTE_FRAME_POINTER, i, slot);
		outer[count++] = slot;
	}
	free(outer);
	return added;
}

/* On arm64 the callee's saved LR lies between its frame and its arguments. */
static bool add_arguments(const struct annotate_input *in, struct notes *notes, size_t i)
{
	const struct frame *f = &in->frames->items[i];
	uint64_t start = f->cfa + (in->machine == MACHINE_ARM64 ? 8 : 0);
	struct go_func func;

	if (!f->cfa || !pclntab_find(in->functions, stack_pc_lookup(f->word), &func) ||
	    func.args <= 0)
		return true;
	return add(notes, (struct note){start, start + func.args, NOTE_ARGUMENTS, i, NULL});
}

static struct error *add_variables(const struct annotate_input *in, struct notes *notes, size_t i)
{
	const struct frame *f = &in->frames->items[i];
	const struct variable *variables;
	size_t count;
	struct error *err;

	if (!f->cfa || !in->variables)
		return NULL;
	err = frame_variables(in, f, &variables, &count);
	for (size_t k = 0; !err && k < count; k++) {
		const struct variable *v = &variables[k];
		uint64_t start = f->cfa + v->place;

		if (v->in_register || start < in->memory.sp || start >= in->stack_end ||
		    v->size > in->stack_end - start)
			continue;
		if (!add(notes, (struct note){start, start + v->size, NOTE_VARIABLE, i, v}))
			err = &error_no_memory;
	}
	return err;
}

static int compare(const void *a, const void *b)
{
	const struct note *x = a, *y = b;

	if (x->end != y->end)
		return x->end < y->end ? 1 : -1;
	if (x->kind != y->kind)
		return (x->kind > y->kind) - (x->kind < y->kind);
	if (x->frame != y->frame)
		return (x->frame > y->frame) - (x->frame < y->frame);
	return (x->variable > y->variable) - (x->variable < y->variable);
}

struct error *notes_collect(const struct annotate_input *in, struct notes *ret)
{
	struct error *err = NULL;

	if (!add_returns(in, ret) || !add_frame_pointers(in, ret))
		return &error_no_memory;
	for (size_t i = 0; !err && i < in->frames->count; i++) {
		err = add_variables(in, ret, i);
		if (!err && !add_arguments(in, ret, i))
			err = &error_no_memory;
	}
	if (!err && ret->count)
		qsort(ret->items, ret->count, sizeof(*ret->items), compare);
	return err;
}

void notes_release(struct notes *notes)
{
	free(notes->items);
	*notes = (struct notes){0};
}
