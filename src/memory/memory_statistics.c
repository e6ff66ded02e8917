#include "memory/memory_statistics.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "golayout/view.h"
#include "target/proc_status.h"

/*
 * In all versions memstats has, one behind the other: last_gc_unix, pause_total_ns, pause_ns[256],
 * pause_end[256], numgc, numforcedgc, gc_cpu_fraction (mstats.go).
 */
struct history {
	uint64_t last_gc, total;
	uint64_t pauses[PAUSES], ends[PAUSES];
	uint32_t cycles, forced;
	double cpu;
};

static struct error *must_check read_history(struct target *t, const struct golayout *lay,
					     const struct memory_variables *v,
					     struct memory_statistics *s)
{
	struct history h;
	uint64_t at = stats_at_cycles(&lay->n, v->stats) - offsetof(struct history, cycles);
	struct error *err = target_read(t, at, &h, sizeof(h));

	if (err)
		return err;
	s->last_gc = h.last_gc;
	memcpy(s->pauses, h.pauses, sizeof(h.pauses));
	memcpy(s->pause_ends, h.ends, sizeof(h.ends));
	s->forced = h.forced;
	s->gc_cpu = h.cpu;
	return NULL;
}

/* A P's cache takes a span as a whole; the span itself counts what was given out of it. */
static void count_objects(const struct heap_spans *spans, struct memory_statistics *s)
{
	for (size_t i = 0; i < spans->count; i++) {
		const struct heap_span *span = &spans->items[i];

		if (span->state != SPAN_IN_USE)
			continue;
		s->heap_objects += span->allocated;
		s->heap_bytes += (uint64_t)span->allocated * span->element_size;
	}
}

struct error *memory_statistics_read(struct target *t, const struct image *img,
				     const struct golayout *lay, struct memory_statistics *ret)
{
	_cleanup_heap_spans_ struct heap_spans spans = {0};
	_cleanup_statistics_ struct memory_statistics s = {0};
	struct memory_variables v;
	struct error *err = memory_variables_find(img, lay, &v);

	if (!err)
		err = heap_spans_read(t, lay, &v, NULL, &spans);
	if (!err)
		err = runtime_memory_read(t, img->machine, lay, &v, &spans, &s.memory);
	if (!err)
		err = read_history(t, lay, &v, &s);
	if (err)
		return err;
	count_objects(&spans, &s);
	s.peak_kilobytes = target_pid(t) ? target_status_number(target_pid(t), "VmHWM") : -1;
	*ret = s;
	s = (struct memory_statistics){0};
	return NULL;
}

void memory_statistics_release(struct memory_statistics *s)
{
	runtime_memory_release(&s->memory);
}

static void write_one(const char *name, uint64_t value, FILE *out)
{
	fprintf(out, "# %s = %" PRIu64 "\n", name, value);
}

static void write_two(const char *name, uint64_t in_use, uint64_t mapped, FILE *out)
{
	fprintf(out, "# %s = %" PRIu64 " / %" PRIu64 "\n", name, in_use, mapped);
}

static void write_ring(const char *name, const uint64_t ring[PAUSES], FILE *out)
{
	fprintf(out, "# %s = [", name);
	for (size_t i = 0; i < PAUSES; i++)
		fprintf(out, "%s%" PRIu64, i ? " " : "", ring[i]);
	fputs("]\n", out);
}

/* The fewest digits that mean this number, as Go's %v. */
static void write_fraction(double value, FILE *out)
{
	char text[40];

	for (int digits = 1; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, value);
		if (strtod(text, NULL) == value)
			break;
	}
	fprintf(out, "# GCCPUFraction = %s\n", text);
}

static void write_heap(const struct memory_statistics *s, FILE *out)
{
	const struct memory_classes *c = &s->memory.classes;
	const struct heap_counts *n = &s->memory.counts;
	uint64_t in_use = c->heap_objects + c->heap_unused;
	uint64_t idle = c->heap_free + c->heap_released;

	write_one("Alloc", s->heap_bytes, out);
	write_one("TotalAlloc", s->heap_bytes + n->freed_bytes, out);
	write_one("Sys", c->total, out);
	write_one("Lookups", 0, out);
	write_one("Mallocs", s->heap_objects + n->frees + n->tiny, out);
	write_one("Frees", n->frees + n->tiny, out);
	write_one("HeapAlloc", s->heap_bytes, out);
	write_one("HeapSys", in_use + idle, out);
	write_one("HeapIdle", idle, out);
	write_one("HeapInuse", in_use, out);
	write_one("HeapReleased", c->heap_released, out);
	write_one("HeapObjects", s->heap_objects, out);
}

void memory_statistics_write(const struct memory_statistics *s, FILE *out)
{
	const struct memory_classes *c = &s->memory.classes;

	fputs("\n# runtime.MemStats\n", out);
	write_heap(s, out);
	write_two("Stack", c->heap_stacks, c->heap_stacks + c->os_stacks, out);
	write_two("MSpan", c->mspan_in_use, c->mspan_in_use + c->mspan_free, out);
	write_two("MCache", c->mcache_in_use, c->mcache_in_use + c->mcache_free, out);
	write_one("BuckHashSys", c->profiling_buckets, out);
	write_one("GCSys", c->metadata_other, out);
	write_one("OtherSys", c->other, out);
	write_one("NextGC", s->memory.gc.goal, out);
	write_one("LastGC", s->last_gc, out);
	write_ring("PauseNs", s->pauses, out);
	write_ring("PauseEnd", s->pause_ends, out);
	write_one("NumGC", s->memory.gc.cycles, out);
	write_one("NumForcedGC", s->forced, out);
	write_fraction(s->gc_cpu, out);
	fputs("# DebugGC = false\n", out);
	if (s->peak_kilobytes >= 0)
		write_one("MaxRSS", (uint64_t)s->peak_kilobytes << 10, out);
}
