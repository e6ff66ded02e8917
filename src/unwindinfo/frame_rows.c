#include "unwindinfo/frame_rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* Source: runtime/traceback.go, (*unwinder).next; runtime/sys_linux_amd64.s. */
static enum function_kind kind_of(const struct go_func *f)
{
	static const char *const injected[] = {"runtime.sigpanic", "runtime.asyncPreempt",
					       "runtime.debugCallV2"};

	for (size_t i = 0; i < ARRAY_SIZE(injected); i++)
		if (!strncmp(f->name, injected[i], strlen(injected[i])) &&
		    (!f->name[strlen(injected[i])] ||
		     !strcmp(f->name + strlen(injected[i]), ".abi0")))
			return KIND_INJECTED;
	return !strncmp(f->name, "runtime.sigreturn", 17) ? KIND_SIGRETURN : KIND_PLAIN;
}

/* No unwinder gets past it: the stack ends there, or the function moves SP to another stack.
 * cgocallback takes care that its frame is right on both. */
static bool ends_stack(const struct go_func *f)
{
	return f->flags & FUNC_TOPFRAME ||
	       (f->flags & FUNC_SPWRITE && strncmp(f->name, "runtime.cgocallback", 19));
}

static struct frame_row *add_row(struct frame_rows *r, uint64_t address, int32_t delta)
{
	if (!array_reserve(&r->items, &r->capacity, r->count + 1)) {
		r->failed = true;
		return NULL;
	}
	r->items[r->count] = (struct frame_row){address, delta, FP_UNKNOWN};
	return &r->items[r->count++];
}

static bool add_delta(void *arg, uint64_t from, int32_t delta)
{
	return add_row(arg, from, delta);
}

static enum saved_fp saved_by(const struct record_place *place)
{
	switch (place->owner) {
	case RECORD_OWN:
	case RECORD_AHEAD:
		return FP_SAVED;
	case RECORD_CALLERS:
		return FP_IN_REGISTER;
	default:
		return FP_UNKNOWN;
	}
}

/* A frame record needs a frame. */
static enum saved_fp fp_at(enum saved_fp fp, int32_t delta)
{
	return fp == FP_SAVED && delta < 8 ? FP_IN_REGISTER : fp;
}

/* Splits the rows where the place of the frame pointer changes: both are in order. */
static void add_fp(struct frame_rows *r)
{
	const struct record_change *changes = r->records.changes;
	size_t rows = r->count, next = 0;
	enum saved_fp fp = FP_UNKNOWN;

	for (size_t i = 0; i < rows && !r->failed; i++) {
		uint64_t end = i + 1 < rows ? r->items[i + 1].address : UINT64_MAX;
		int32_t delta = r->items[i].delta;

		for (; next < r->records.count && changes[next].address <= r->items[i].address;
		     next++)
			fp = saved_by(&changes[next].place);
		r->items[i].fp = fp_at(fp, delta);
		/* The last change is behind the function. */
		for (; next + 1 < r->records.count && changes[next].address < end; next++) {
			struct frame_row *row = add_row(r, changes[next].address, delta);

			fp = saved_by(&changes[next].place);
			if (row)
				row->fp = fp_at(fp, delta);
		}
	}
}

static int by_address(const void *a, const void *b)
{
	const struct frame_row *x = a, *y = b;

	return (x->address > y->address) - (x->address < y->address);
}

static void drop_repeated(struct frame_rows *r)
{
	size_t kept = 0;

	for (size_t i = 0; i < r->count; i++) {
		const struct frame_row *row = &r->items[i];

		if (row->address < r->end && (!kept || row->delta != r->items[kept - 1].delta ||
					      row->fp != r->items[kept - 1].fp))
			r->items[kept++] = *row;
	}
	r->count = kept;
}

struct error *frame_rows_of(struct frame_rows *r, const struct image *img, const struct go_func *f)
{
	struct error *err;

	r->count = 0;
	r->end = f->end;
	r->kind = kind_of(f);
	if (r->kind == KIND_SIGRETURN || ends_stack(f))
		return add_row(r, f->entry, -1) ? NULL : &error_no_memory;
	pclntab_each_sp_delta(f, add_delta, r);
	err = r->failed ? &error_no_memory : frame_records_function(&r->records, img, f);
	if (err)
		return err;
	/* The table ends where the padding begins. */
	if (r->count > 1 && r->items[r->count - 1].delta < 0)
		r->end = r->items[--r->count].address;
	add_fp(r);
	qsort(r->items, r->count, sizeof(*r->items), by_address);
	drop_repeated(r);
	return r->failed ? &error_no_memory : NULL;
}

void frame_rows_release(struct frame_rows *r)
{
	free(r->items);
	frame_records_release(&r->records);
	*r = (struct frame_rows){0};
}
