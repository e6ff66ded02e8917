/* One JSON object; gospect-memory(1) lists its keys, which are a promise. */
#include <inttypes.h>

#include "footprint/footprint.h"
#include "profile/json_text.h"

static struct error *must_check write_node(const struct memory_tree *tree, uint32_t node, FILE *out)
{
	struct error *err;

	fputs("{\"name\":", out);
	err = json_text_write(memory_node_name(tree, node), out);
	fprintf(out, ",\"bytes\":%" PRIu64 ",\"children\":[", tree->items[node].bytes);
	for (uint32_t i = tree->items[node].first; !err && i != TREE_NONE;
	     i = tree->items[i].next) {
		err = write_node(tree, i, out);
		if (tree->items[i].next != TREE_NONE)
			fputc(',', out);
	}
	fputs("]}", out);
	return err;
}

/* null when it is not known, or none. */
static void write_number(const char *name, uint64_t value, bool known, FILE *out)
{
	if (known)
		fprintf(out, "\"%s\":%" PRIu64, name, value);
	else
		fprintf(out, "\"%s\":null", name);
}

static void write_metrics(const struct footprint *f, FILE *out)
{
	const char *name;
	uint64_t value;

	fputs("\"runtime_metrics\":{", out);
	for (size_t i = 0; (name = memory_class_at(&f->classes, i, &value)); i++)
		fprintf(out, "%s\"%s\":%" PRIu64, i ? "," : "", name, value);
	fputs("},\n", out);
}

static void write_gc(const struct footprint *f, FILE *out)
{
	const struct gc_pacing *gc = &f->gc;

	fputs("\"gc\":{", out);
	write_number("goal_bytes", gc->goal, gc->goal <= GC_MOST_GOAL, out);
	fprintf(out, ",\"heap_bytes\":%" PRIu64 ",\"marked_bytes\":%" PRIu64 ",\"gogc\":%d,",
		gc->live, gc->marked, gc->percent);
	write_number("memory_limit_bytes", gc->limit, gc->limit != UINT64_MAX, out);
	fprintf(out, ",\"limit_decides\":%s,\"cycles\":%" PRIu32 ",",
		gc->is_limited ? "true" : "false", gc->cycles);
	write_number("since_last_ns", f->taken - gc->last_gc_ns,
		     gc->last_gc_ns && f->taken >= gc->last_gc_ns, out);
	fputs("},\n", out);
}

static void write_sizes(const struct footprint *f, FILE *out)
{
	fputs("\"size_classes\":[", out);
	for (size_t i = 0; i < f->size_count; i++) {
		const struct footprint_class *c = &f->sizes[i];

		fputs(i ? ",\n{" : "{", out);
		write_number("object_bytes", c->object_bytes, c->object_bytes, out);
		fprintf(out,
			",\"spans\":%" PRIu64 ",\"span_bytes\":%" PRIu64 ",\"objects\":%" PRIu64
			",\"garbage\":%" PRIu64 ",\"free_slots\":%" PRIu64
			",\"resident_bytes\":%" PRIu64 "}",
			c->spans, c->span_bytes, c->objects, c->garbage, c->slots, c->resident);
	}
	fputs("],\n", out);
}

static struct error *must_check write_creators(const struct footprint *f, FILE *out)
{
	struct error *err = NULL;

	fputs("\"stacks_by_creator\":[", out);
	for (size_t i = 0; !err && i < f->creator_count; i++) {
		const struct footprint_creator *c = &f->creators[i];

		fputs(i ? ",\n{\"created_by\":" : "{\"created_by\":", out);
		err = json_text_write(intern_get(&f->tree.names, c->name), out);
		fprintf(out,
			",\"goroutines\":%" PRIu64 ",\"stack_bytes\":%" PRIu64
			",\"frame_bytes\":%" PRIu64 "}",
			c->goroutines, c->stack_bytes, c->frame_bytes);
	}
	fputs("],\n", out);
	return err;
}

static struct error *must_check write_process(const struct footprint *f, FILE *out)
{
	struct error *err;

	fprintf(out, "\"process\":{\"pid\":%d,\"exe\":", f->pid);
	err = json_text_write(f->exe, out);
	fprintf(out, ",\"is_core\":%s},\n\"cgroup\":{", f->is_core ? "true" : "false");
	write_number("charge_bytes", f->charge, f->charge, out);
	fputc(',', out);
	write_number("limit_bytes", f->limit, f->limit != UINT64_MAX, out);
	fprintf(out,
		"},\n\"not_resident_heap_bytes\":%" PRIu64 ",\"swapped_bytes\":%" PRIu64
		",\"huge_page_bytes\":%" PRIu64 ",\"lazily_free_bytes\":%" PRIu64
		",\n\"goroutines\":%" PRIu64 ",\"pages_known\":%s,\n",
		f->returned, f->swapped, f->huge, f->lazily_free, f->goroutines,
		f->is_exact ? "true" : "false");
	return err;
}

struct error *footprint_write_json(const struct footprint *f, FILE *out)
{
	_cleanup_strbuf_ struct strbuf advice = STRBUF_INIT;
	struct error *err;

	fprintf(out, "{\"rss_bytes\":%" PRIu64 ",\n\"tree\":", f->resident);
	err = write_node(&f->tree, TREE_ROOT, out);
	fputs(",\n", out);
	if (!err)
		err = write_process(f, out);
	write_metrics(f, out);
	write_gc(f, out);
	write_sizes(f, out);
	if (!err)
		err = write_creators(f, out);
	if (!err && !footprint_add_advice(f, &advice))
		err = &error_no_memory;
	fputs("\"advice\":", out);
	if (!err)
		err = json_text_write(advice.data, out);
	fputs("}\n", out);
	return err;
}
