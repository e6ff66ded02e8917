#include "annotate/annotate.h"

#include <stdlib.h>

#include "annotate/describe.h"
#include "annotate/notes.h"
#include "base/cleanup.h"

/* A pc has as many frames as calls were inlined there. */
#define MAX_INLINED 64
/* The most notes that are shown for one word. */
#define MAX_ACTIVE 16

struct annotation {
	struct annotate_input in;
	struct notes notes;
	uint64_t next_row;                     /* the address behind the next row's word */
	size_t next_note;                      /* those before have ended above, or are active */
	const struct note *active[MAX_ACTIVE]; /* those that reach into the row, or below */
	size_t active_count;
	const struct variable *in_registers; /* of frame 0 */
	size_t register_count;
	size_t next_register;
	struct strbuf text;
	char register_name[8];
};

/* The variables of frame 0, where registers are known. */
static struct error *find_registers(struct annotation *a)
{
	const struct annotate_input *in = &a->in;

	if (!in->general || !in->variables || !in->frames->count)
		return NULL;
	return frame_variables(in, &in->frames->items[0], &a->in_registers, &a->register_count);
}

struct error *annotation_create(const struct annotate_input *input, struct annotation **ret)
{
	_cleanup_annotation_ struct annotation *a = calloc(1, sizeof(*a));
	struct error *err;

	if (!a)
		return &error_no_memory;
	a->in = *input;
	a->text = (struct strbuf)STRBUF_INIT;
	a->next_row = input->memory.sp + (input->memory.size & ~(size_t)7);
	err = notes_collect(&a->in, &a->notes);
	if (!err)
		err = find_registers(a);
	if (!err)
		*ret = take_ptr(a);
	return err;
}

void annotation_destroy(struct annotation *a)
{
	if (!a)
		return;
	notes_release(&a->notes);
	strbuf_release(&a->text);
	free(a);
}

/* The function whose frame this is; inlined calls share it. */
static const char *function_of(const struct annotate_input *in, const struct frame *f)
{
	struct go_frame frames[MAX_INLINED];
	size_t n = pclntab_frames(in->functions, f->word, frames, MAX_INLINED);

	return n ? frames[n - 1].function : "?";
}

/* The frame that the address lies in, or NULL. */
static const struct frame *frame_at(const struct annotate_input *in, uint64_t address)
{
	size_t lo = 0, hi = in->frames->count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (in->frames->items[mid].sp <= address)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo ? &in->frames->items[lo - 1] : NULL;
}

static int64_t offset_of(const struct annotate_input *in, uint64_t address)
{
	return (int64_t)(address - (in->stack_end - 8));
}

/* Where the call returns to, as the source has it: the inlined calls there, innermost first. The
 * functions where stacks end have no line that means anything. */
static void add_return(struct annotation *a, const struct note *note)
{
	const struct frame *caller = &a->in.frames->items[note->frame + 1];
	bool last = note->frame + 2 == a->in.frames->count && a->in.frames->end == FRAMES_WHOLE;
	struct go_frame frames[MAX_INLINED];
	size_t n = pclntab_frames(a->in.functions, caller->word, frames, MAX_INLINED);

	strbuf_addf(&a->text, "return addr to %s", n ? frames[0].function : "?");
	if (n && !last)
		strbuf_addf(&a->text, " at %s:%d", frames[0].file, frames[0].line);
	for (size_t i = 1; i < n; i++)
		strbuf_addf(&a->text, ", inlined into %s", frames[i].function);
	if (a->in.machine == MACHINE_ARM64)
		strbuf_addf(&a->text, " (lr saved by %s)",
			    function_of(&a->in, &a->in.frames->items[note->frame]));
}

static void add_stack_pointer(struct annotation *a, uint64_t value)
{
	const struct frame *f = frame_at(&a->in, value);

	if (!f || value >= a->in.stack_end)
		return;
	strbuf_addf(&a->text, "%spoints to offset %ld, in the frame of %s",
		    a->text.length ? ", " : "? ", offset_of(&a->in, value), function_of(&a->in, f));
}

static void add_note(struct annotation *a, const struct note *note, uint64_t address,
		     uint64_t value)
{
	const struct frame *f = &a->in.frames->items[note->frame];
	bool pointer;

	if (a->text.length)
		strbuf_adds(&a->text, "; ");
	switch (note->kind) {
	case NOTE_RETURN:
		add_return(a, note);
		break;
	case NOTE_FRAME_POINTER:
		strbuf_addf(&a->text, "frame pointer for %s%s", function_of(&a->in, f),
			    a->in.machine == MACHINE_ARM64 ? " (x29)" : "");
		break;
	case NOTE_INTERRUPTED_LR:
		strbuf_addf(&a->text, "lr of %s when it was interrupted",
			    function_of(&a->in, f + 1));
		break;
	case NOTE_VARIABLE:
		describe_variable(&a->text, note->variable,
				  (int64_t)(address - note->start + note->variable->from), value,
				  &pointer);
		if (pointer)
			add_stack_pointer(a, value);
		break;
	case NOTE_ARGUMENTS:
		break;
	}
}

/* Describes a word that no variable covers. */
static void add_guess(struct annotation *a, uint64_t value)
{
	const char *before = " ";
	struct go_func f;

	add_stack_pointer(a, value);
	if (!a->text.length)
		strbuf_addc(&a->text, '?');
	else
		before = ", ";
	for (size_t i = 0; i < a->active_count; i++, before = ", ")
		strbuf_addf(&a->text, "%sroom for arguments of %s", before,
			    function_of(&a->in, &a->in.frames->items[a->active[i]->frame]));
	if (pclntab_find(a->in.functions, value, &f))
		strbuf_addf(&a->text, "%scode of %s+0x%lx", before, f.name, value - f.entry);
}

/* Makes those notes active that reach into the word at this address. */
static void update_active(struct annotation *a, uint64_t address)
{
	size_t n = 0;

	for (size_t i = 0; i < a->active_count; i++)
		if (a->active[i]->start < address + 8)
			a->active[n++] = a->active[i];
	a->active_count = n;
	while (a->next_note < a->notes.count && a->notes.items[a->next_note].end > address) {
		const struct note *note = &a->notes.items[a->next_note++];

		if (note->start >= address + 8)
			continue;
		if (a->active_count < MAX_ACTIVE)
			a->active[a->active_count++] = note;
		else if (note->kind < NOTE_VARIABLE)
			a->active[0] = note;
	}
}

/* Results of unwinding are certain. A variable at the same place is then ignored. */
static void add_notes(struct annotation *a, uint64_t address, uint64_t value)
{
	bool certain = false;

	for (size_t i = 0; i < a->active_count; i++)
		certain |= a->active[i]->kind < NOTE_VARIABLE;
	for (size_t i = 0; i < a->active_count; i++) {
		enum note_kind kind = a->active[i]->kind;

		if (certain ? kind < NOTE_VARIABLE : kind == NOTE_VARIABLE)
			add_note(a, a->active[i], address, value);
	}
}

static bool next_word(struct annotation *a, struct annotate_row *ret)
{
	uint64_t address = a->next_row - 8, value;

	if (a->next_row == a->in.memory.sp || !input_word(&a->in, address, &value))
		return false;
	a->next_row = address;
	strbuf_reset(&a->text);
	update_active(a, address);
	add_notes(a, address, value);
	if (!a->text.length)
		add_guess(a, value);
	*ret = (struct annotate_row){
		.address = address,
		.offset = offset_of(&a->in, address),
		.value = value,
		.is_sp = address == a->in.memory.sp,
		.is_fp = a->in.fp && address == a->in.fp,
		.text = a->text.data,
	};
	return true;
}

static const char *register_name(struct annotation *a, unsigned int number)
{
	static const char *const amd64[] = {"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp"};

	if (a->in.machine == MACHINE_AMD64 && number < 8)
		return amd64[number];
	if (a->in.machine == MACHINE_ARM64 && number == 31)
		return "sp";
	snprintf(a->register_name, sizeof(a->register_name), "%c%u",
		 a->in.machine == MACHINE_AMD64 ? 'r' : 'x', number & 0xff);
	return a->register_name;
}

static bool next_register(struct annotation *a, struct annotate_row *ret)
{
	bool pointer;

	while (a->next_register < a->register_count) {
		const struct variable *v = &a->in_registers[a->next_register++];
		uint64_t value;

		if (!v->in_register || v->number >= a->in.general_count)
			continue;
		value = a->in.general[v->number];
		strbuf_reset(&a->text);
		describe_variable(&a->text, v, v->from, value, &pointer);
		if (pointer)
			add_stack_pointer(a, value);
		*ret = (struct annotate_row){.value = value,
					     .in_register = register_name(a, v->number),
					     .text = a->text.data};
		return true;
	}
	return false;
}

bool annotation_next(struct annotation *a, struct annotate_row *ret)
{
	return next_word(a, ret) || next_register(a, ret);
}
