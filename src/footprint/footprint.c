#include "footprint/footprint.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/memory_room.h"
#include "footprint/division.h"

static void parts_release(struct parts *p)
{
	heap_spans_release(&p->spans);
	runtime_memory_release(&p->memory);
	target_regions_release(&p->regions);
	stack_use_release(&p->stacks);
	free(p->garbage);
	free(p->resident);
}

static struct error *must_check read_runtime(struct parts *p)
{
	struct memory_variables v;
	struct error *err = memory_variables_find(p->img, p->lay, &v);

	if (!err)
		err = heap_spans_read(p->t, p->lay, &v, p->cancel, &p->spans);
	if (!err)
		err = runtime_memory_read(p->t, p->img->machine, p->lay, &v, &p->spans, &p->memory);
	if (err)
		return err;
	p->garbage = calloc(p->spans.count + 1, sizeof(*p->garbage));
	p->resident = calloc(p->spans.count + 1, sizeof(*p->resident));
	if (!p->garbage || !p->resident)
		return &error_no_memory;
	return span_garbage_count(p->t, p->lay, &p->spans, &p->memory, p->garbage);
}

/* Bytes of the heap that are mapped and not resident: of those that were used before, since the
 * runtime counts what it never touched as released, too. */
static uint64_t returned_bytes(const struct parts *p)
{
	return p->memory.classes.heap_released;
}

static void take_group(struct footprint *f)
{
	char path[64];

	f->limit = UINT64_MAX;
	if (f->is_core)
		return;
	snprintf(path, sizeof(path), "/proc/%d/cgroup", f->pid);
	memory_charge_in(path, "/sys/fs/cgroup", &f->charge, &f->limit);
}

static struct error *must_check build(struct parts *p, const struct unwinding *unwind)
{
	struct footprint *f = p->f;
	struct error *err = read_runtime(p);

	if (memory_tree_child(&f->tree, TREE_NONE, "resident memory") == TREE_NONE)
		err = err ?: &error_no_memory;
	if (!err)
		err = stack_use_read(p, unwind);
	/* Last, so that what the runtime maps meanwhile is in it. */
	if (!err)
		err = target_regions_read(p->t, &p->regions);
	if (!err)
		err = regions_divide(p);
	if (!err)
		err = heap_divide(p);
	if (!err && !memory_tree_sum(&f->tree))
		err = &error_no_memory;
	if (err)
		return err;
	f->resident = f->tree.items[TREE_ROOT].bytes;
	f->idle = p->kinds[MEMORY_ARENA];
	f->classes = p->memory.classes;
	f->gc = p->memory.gc;
	f->changed = p->spans.changed;
	f->returned = returned_bytes(p);
	return target_check(p->t);
}

struct error *footprint_take(struct target *t, const struct image *img, const struct golayout *lay,
			     const struct unwinding *unwind, const atomic_int *cancel,
			     struct footprint *ret)
{
	_cleanup_footprint_ struct footprint f = {
		.pid = target_core(t) ? target_core(t)->pid : target_pid(t),
		.exe = target_exe_name(t),
		.is_core = target_core(t) != NULL,
		.is_exact = true,
	};
	struct parts p = {.t = t, .img = img, .lay = lay, .cancel = cancel, .f = &f};
	struct error *err = build(&p, unwind);

	parts_release(&p);
	if (err)
		return err;
	take_group(&f);
	*ret = f;
	f = (struct footprint){0};
	return NULL;
}

void footprint_release(struct footprint *f)
{
	memory_tree_release(&f->tree);
	free(f->sizes);
	free(f->creators);
	*f = (struct footprint){0};
}
