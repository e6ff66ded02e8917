/* Text: types, holders, strings that are there more than once, and how sure all of it is. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/printable.h"
#include "footprint/amounts.h"
#include "retained/retained.h"

static double percent(const struct retained *r, uint64_t bytes)
{
	return r->graph.bytes ? 100 * (double)bytes / (double)r->graph.bytes : 0;
}

static void write_types(const struct retained *r, size_t rows, FILE *out)
{
	const struct holder_tree *tree = &r->holders;
	char bytes[16], retained[16];
	size_t sampled;

	fprintf(out, "%10s %6s %10s %6s %12s  %s\n", "BYTES", "%", "RETAINED", "%", "OBJECTS",
		"TYPE");
	for (size_t i = 0; i < tree->type_count && (!rows || i < rows); i++) {
		const struct type_sum *t = &tree->types[i];

		const struct allocation_site *sites = retained_sites(r, t, &sampled);

		printable_line(out, "%10s %6.1f %10s %6.1f %12" PRIu64 "  %s%s%s",
			       amount_text(t->bytes, bytes), percent(r, t->bytes),
			       amount_text(t->retained, retained), percent(r, t->retained),
			       t->count, intern_get(&tree->names, t->name),
			       sampled ? ", allocated by " : "", sampled ? sites->function : "");
	}
	if (rows && tree->type_count > rows)
		fprintf(out, "(%zu more types; -n 0 prints all)\n", tree->type_count - rows);
}

static struct error *must_check write_holders(struct retained *r, size_t rows, FILE *out)
{
	_cleanup_free_ struct holder_row *items = NULL;
	struct error *err;
	char text[16];
	size_t count;

	err = retained_rows(r, r->graph.bytes / 1000, &items, &count);
	if (err)
		return err;
	fprintf(out, "\n%10s %6s %12s  %s\n", "RETAINED", "%", "OBJECTS", "HOLDER");
	for (size_t i = 0; i < count && (!rows || i < rows) && !err; i++) {
		const struct holder *h = &r->holders.items[items[i].holder];
		_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

		strbuf_addf(&line, "%10s %6.1f %12" PRIu64 "  ", amount_text(h->retained, text),
			    percent(r, h->retained), h->count);
		err = retained_add_path(r, &items[i], &line);
		if (!err)
			printable_write_line(&line, out);
	}
	return err;
}

static void write_strings(const struct retained *r, size_t rows, FILE *out)
{
	char text[16];

	if (!r->strings.count)
		return;
	fprintf(out, "\n%10s %12s %10s  %s\n", "WASTED", "COPIES", "LENGTH", "STRING");
	for (size_t i = 0; i < r->strings.count && (!rows || i < rows); i++) {
		const struct equal_string *s = &r->strings.items[i];

		printable_line(out, "%10s %12" PRIu64 " %10" PRIu64 "  \"%s\"%s",
			       amount_text(equal_string_wasted(s), text), s->count, s->length,
			       s->text, s->length > EQUAL_SHOWN ? "..." : "");
	}
}

static void write_error(const struct retained *r, FILE *out)
{
	char reached[16], heap[16];

	amount_text(r->graph.bytes, reached);
	amount_text(r->graph.spans.bytes, heap);
	fprintf(out, "\n%" PRIu32 " objects of %s are held, of %s in spans of the heap. ",
		r->graph.count, reached, heap);
	if (r->is_exact)
		fputs("The program did not run while it was read: the numbers are exact.\n", out);
	else
		fprintf(out,
			"This is an estimate: the program ran on, and %.2g %% of its pointers "
			"changed while they were read.\n",
			retained_error_percent(r));
}

struct error *retained_write_text(struct retained *r, size_t rows, FILE *out)
{
	struct error *err;

	write_types(r, rows, out);
	err = write_holders(r, rows, out);
	write_strings(r, rows, out);
	write_error(r, out);
	return err;
}
