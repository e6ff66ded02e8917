/* A file that claims to be a Go execution trace: its reader, the order of its steps, and every
 * output of `report`. */
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "fuzz.h"
#include "made_trace.h"
#include "requests/inferred_spans.h"
#include "requests/machine.h"
#include "requests/requests.h"
#include "requests/spans.h"
#include "requests/summary.h"

struct report {
	struct span_tables tables;
	struct summary summary;
	struct requests by_label, by_function;
	struct inferred_spans inferred;
};

static struct error *take_span(void *arg, const struct span *span)
{
	struct report *r = arg;
	struct error *err = inferred_spans_add(&r->inferred, &r->tables, span);

	if (err || span->moment)
		return err;
	fuzz_require(span->begin <= span->end);
	err = summary_add(&r->summary, span);
	return err ? err : requests_add(&r->by_label, &r->tables, span);
}

static void complete(struct report *r, uint64_t duration)
{
	_cleanup_free_ struct request_group *groups = NULL;
	size_t count;

	fuzz_require(!inferred_spans_complete(&r->inferred));
	summary_complete(&r->summary);
	fuzz_require(!requests_complete(&r->by_label, duration));
	fuzz_require(!requests_complete(&r->by_function, duration));
	fuzz_require(!requests_group(&r->by_label, &groups, &count));
	fuzz_accepted += r->summary.count;
}

static void read_machine(const uint8_t *data, size_t size)
{
	_cleanup_trace_reader_ struct trace_reader *reader = NULL;
	struct machine_report *m = calloc(1, sizeof(*m));

	fuzz_require(m && !trace_reader_create(data, size, &reader));
	error_destroy(machine_read(reader, NULL, m));
	for (size_t i = 0; i < m->processors.count; i++) {
		const uint64_t *ns = m->processors.items[i]->ns;

		fuzz_require(ns[0] + ns[1] + ns[2] + ns[3] == m->duration);
	}
	for (size_t i = 0; i < m->stop_count; i++)
		fuzz_require(m->stops[i].stopping_ns <= m->stops[i].end - m->stops[i].begin);
	machine_release(m);
	free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_trace_reader_ struct trace_reader *reader = NULL;
	struct report r = {.by_label = {.key = "k", .per = "p"}};
	struct spans_options options = {.span = take_span, .arg = &r, .calls = true};
	uint64_t duration = 0;
	regex_t root;

	if (error_dropped(trace_reader_create(data, size, &reader)))
		return 0;
	fuzz_require(!regcomp(&root, "^main", REG_EXTENDED | REG_NOSUB));
	r.inferred = (struct inferred_spans){.root = &root, .requests = &r.by_function};
	error_destroy(spans_read(reader, &options, &r.tables, &duration));
	complete(&r, duration);
	summary_release(&r.summary);
	inferred_spans_release(&r.inferred);
	requests_release(&r.by_label);
	requests_release(&r.by_function);
	span_tables_release(&r.tables);
	regfree(&root);
	read_machine(data, size);
	return 0;
}

/* ---- seeds ---- */

struct emitting {
	fuzz_emit *emit;
	void *arg;
};

static void emit_file(void *arg, const struct strbuf *file)
{
	const struct emitting *e = arg;

	e->emit(e->arg, file->data, file->length);
}

void fuzz_seeds(fuzz_emit *emit, void *arg)
{
	made_traces(&trace_format_go, emit_file, &(struct emitting){emit, arg});
}
