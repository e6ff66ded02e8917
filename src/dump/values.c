#include "dump/values.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "base/printable.h"
#include "dump/arguments.h"
#include "dump/show_value.h"
#include "unwind/frames.h"

/* Of all values. */
#define MAX_BYTES (256u << 20)
/* Of a deeper stack the frames in the middle have no values: so many at either end have them. */
#define MAX_FRAMES 1000
/* Variables of one frame. */
#define MAX_LOCALS 200

struct values {
	const struct image *img;
	struct value_reader reader;
	struct arena texts;
	struct strbuf text;
	struct local_value *locals; /* of the frame that is being read */
	size_t count;
	size_t capacity;
	size_t left_out;
};

struct error *values_open(struct target *t, const struct image *img, struct variables *variables,
			  struct values **ret)
{
	struct values *v = calloc(1, sizeof(*v));
	struct error *err = NULL;

	if (!v)
		return &error_no_memory;
	v->img = img;
	v->text = (struct strbuf)STRBUF_INIT;
	v->reader = (struct value_reader){.t = t, .img = img, .variables = variables};
	if (variables)
		err = type_names_open(t, img, &v->reader.names);
	if (err)
		values_close(v);
	else
		*ret = v;
	return err;
}

void values_close(struct values *v)
{
	if (!v)
		return;
	arena_release(&v->texts);
	strbuf_release(&v->text);
	free(v->locals);
	free(v);
}

bool values_have_locals(const struct values *v)
{
	return v->reader.variables;
}

size_t values_left_out(const struct values *v)
{
	return v->left_out;
}

/* Keeps what is in v->text; NULL: no memory. */
static const char *keep(struct values *v)
{
	return v->text.failed ? NULL : arena_copy(&v->texts, v->text.data, v->text.length);
}

/* ---- arguments ---- */

/* Where a function's arguments begin: runtime/traceback.go, argp. */
static uint64_t arguments_at(const struct values *v, const struct frame *f)
{
	return f->cfa + (v->img->machine == MACHINE_ARM64 ? 8 : 0);
}

static struct error *take_arguments(struct values *v, const struct stack_memory *memory,
				    const struct frame *f, struct frame_values *ret)
{
	uint64_t pc = stack_pc_lookup(f->word);
	struct argument_info info;
	struct go_func func;

	if (!pclntab_find(&v->img->functions, pc, &func))
		return NULL;
	strbuf_reset(&v->text);
	if (pclntab_arguments(&func, pc, &info) &&
	    !arguments_add(&v->text, &info, memory, arguments_at(v, f)))
		return NULL;
	ret->arguments = keep(v);
	return ret->arguments ? NULL : &error_no_memory;
}

/* ---- local variables ---- */

/* One part of a variable, where it is known. */
static void take_part(const struct values *v, const struct goroutine_memory *m,
		      const struct frame *f, const struct variable *part, bool is_innermost,
		      struct value_bytes *bytes)
{
	uint64_t size = part->size, from = part->from;
	bool known;

	if (from >= bytes->size)
		return;
	if (size > bytes->size - from)
		size = bytes->size - from;
	if (part->in_register) {
		known = is_innermost && m->has_general &&
			part->number < ARRAY_SIZE(m->registers.general) && size <= 8;
		if (known)
			memcpy(bytes->data + from, &m->registers.general[part->number], size);
	} else {
		known = f->cfa &&
			value_read(&v->reader, f->cfa + part->place, bytes->data + from, size);
	}
	memset(bytes->known + from, known, size);
}

/* Variables of the same name and place in the source are parts of one. */
static bool is_same(const struct variable *a, const struct variable *b)
{
	return a->name == b->name && a->type == b->type && a->inlined == b->inlined &&
	       b->from == a->from + a->size;
}

/* Results without names, and the compiler's own variables. */
static bool is_nameless(const char *name)
{
	return *name == '~' || *name == '.' || !strcmp(name, "_");
}

/* A variable that escaped to the heap is in DWARF as "&x", a pointer to it. */
static const struct go_type *follow_escaped(const struct values *v, const struct go_type *type,
					    struct value_bytes *bytes)
{
	const struct go_type *to = variables_pointee(v->reader.variables, type);
	uint64_t address;
	bool known = to && bytes->size == 8;

	for (size_t i = 0; i < 8 && known; i++)
		known = bytes->known[i];
	if (!to)
		return type;
	memcpy(&address, bytes->data, sizeof(address));
	bytes->size = to->size < SHOWN_BYTES ? to->size : SHOWN_BYTES;
	known = known && value_read(&v->reader, address, bytes->data, bytes->size);
	memset(bytes->known, known, sizeof(bytes->known));
	return to;
}

static struct error *add_local(struct values *v, const struct variable *variable,
			       struct value_bytes *bytes)
{
	const char *name = variable->name;
	const struct go_type *type = variable->type;
	struct local_value *l;

	if (!array_reserve(&v->locals, &v->capacity, v->count + 1))
		return &error_no_memory;
	if (*name == '&') {
		name++;
		type = follow_escaped(v, type, bytes);
	}
	strbuf_reset(&v->text);
	value_show(&v->text, &v->reader, type, bytes);
	l = &v->locals[v->count++];
	*l = (struct local_value){
		.name = name,
		.type = type->name,
		.inlined = variable->inlined,
		.declared = variable->line,
		.is_argument = variable->is_argument,
		.text = keep(v),
	};
	return l->text ? NULL : &error_no_memory;
}

/* The locals in v->locals, kept. */
static struct error *keep_locals(struct values *v, struct frame_values *ret)
{
	size_t size = v->count * sizeof(*v->locals);
	struct local_value *kept = size ? (void *)arena_take(&v->texts, size) : NULL;

	if (!size)
		return NULL;
	if (!kept)
		return &error_no_memory;
	memcpy(kept, v->locals, size);
	ret->locals = kept;
	ret->local_count = v->count;
	return NULL;
}

static struct error *take_locals(struct values *v, const struct goroutine_memory *m,
				 const struct frame *f, bool is_innermost, struct frame_values *ret)
{
	const struct variable *all;
	struct value_bytes bytes;
	size_t count, next;
	struct error *err =
		variables_at(v->reader.variables, stack_pc_address(f->word) - v->img->bias,
			     !(f->word & STACK_PC_EXACT), &all, &count);

	v->count = 0;
	for (size_t i = 0; !err && i < count && v->count < MAX_LOCALS; i = next) {
		uint64_t size = all[i].type->size;

		next = i + 1;
		if (is_nameless(all[i].name))
			continue;
		bytes.size = size < SHOWN_BYTES ? size : SHOWN_BYTES;
		memset(bytes.known, 0, sizeof(bytes.known));
		take_part(v, m, f, &all[i], is_innermost, &bytes);
		for (; next < count && is_same(&all[next - 1], &all[next]); next++)
			take_part(v, m, f, &all[next], is_innermost, &bytes);
		err = add_local(v, &all[i], &bytes);
	}
	return err ? err : keep_locals(v, ret);
}

/* ---- a goroutine ---- */

/* How many frames begin the stack. */
static size_t matching(const struct frames *frames, struct stack stack)
{
	size_t n = 0;

	while (n < frames->count && n < stack.count && frames->items[n].word == stack.pcs[n])
		n++;
	return n;
}

static struct error *take_frames(struct values *v, const struct goroutine_memory *m,
				 const struct frames *frames, struct frame_values *to, size_t count)
{
	struct error *err = NULL;

	for (size_t i = 0; !err && i < count; i++) {
		if ((i >= MAX_FRAMES && i < count - MAX_FRAMES) || v->texts.mapped > MAX_BYTES) {
			v->left_out++;
			continue;
		}
		err = take_arguments(v, &m->memory, &frames->items[i], &to[i]);
		if (!err && v->reader.variables)
			err = take_locals(v, m, &frames->items[i], !i, &to[i]);
	}
	return err;
}

struct error *values_take(struct values *v, const struct goroutine_memory *memory,
			  struct stack stack, const struct goroutine_values **ret)
{
	_cleanup_frames_ struct frames frames = {0};
	struct goroutine_values *values;
	struct frame_values *all;
	struct error *err;
	size_t count;

	*ret = NULL;
	if (!memory->memory.bytes)
		return NULL;
	err = frames_unwind(&v->img->functions, v->img->machine, &memory->memory, &frames);
	if (err)
		return err;
	count = matching(&frames, stack);
	if (v->texts.mapped > MAX_BYTES) {
		v->left_out += count;
		return NULL;
	}
	values = (void *)arena_take(&v->texts, sizeof(*values));
	all = (void *)arena_take(&v->texts, (count + 1) * sizeof(*all));
	if (!values || !all)
		return &error_no_memory;
	memset(all, 0, (count + 1) * sizeof(*all));
	v->reader.stack = &memory->memory;
	err = take_frames(v, memory, &frames, all, count);
	v->reader.stack = NULL;
	*values = (struct goroutine_values){all, count};
	*ret = values;
	return err;
}
