/* One JSON object; gospect-heap(1) lists its keys, which are a promise. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "profile/json_text.h"
#include "retained/retained.h"

#define MOST_SITES 10u

/* Of objects of unknown type. */
static struct error *must_check write_sites(const struct retained *r, const struct type_sum *type,
					    FILE *out)
{
	size_t count;
	const struct allocation_site *sites = retained_sites(r, type, &count);
	struct error *err = NULL;

	if (!count)
		return NULL;
	fputs(",\"allocated_by\":[", out);
	for (size_t i = 0; i < count && i < MOST_SITES && !err; i++) {
		fputs(i ? ",{\"func\":" : "{\"func\":", out);
		err = json_text_write(sites[i].function, out);
		fprintf(out, ",\"sampled\":%" PRIu32 "}", sites[i].count);
	}
	fputc(']', out);
	return err;
}

static struct error *must_check write_types(const struct retained *r, FILE *out)
{
	const struct holder_tree *tree = &r->holders;
	struct error *err = NULL;

	fputs("\"types\":[", out);
	for (size_t i = 0; i < tree->type_count && !err; i++) {
		const struct type_sum *t = &tree->types[i];

		fputs(i ? ",\n{\"name\":" : "\n{\"name\":", out);
		err = json_text_write(intern_get(&tree->names, t->name), out);
		fprintf(out,
			",\"count\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"retained_bytes\":%" PRIu64,
			t->count, t->bytes, t->retained);
		if (!err)
			err = write_sites(r, t, out);
		fputc('}', out);
	}
	fputs("],\n", out);
	return err;
}

static struct error *must_check write_holder(struct retained *r, const struct holder_row *row,
					     FILE *out)
{
	const struct holder *h = &r->holders.items[row->holder];
	_cleanup_strbuf_ struct strbuf path = STRBUF_INIT;
	struct error *err = retained_add_path(r, row, &path);

	if (err)
		return err;
	fputs("{\"path\":", out);
	err = json_text_write(path.data, out);
	fprintf(out, ",\"retained_bytes\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"count\":%" PRIu64 "}",
		h->retained, h->bytes, h->count);
	return err;
}

static struct error *must_check write_holders(struct retained *r, FILE *out)
{
	_cleanup_free_ struct holder_row *items = NULL;
	struct error *err;
	size_t count;

	err = retained_rows(r, r->graph.bytes / 10000, &items, &count);
	if (err)
		return err;
	fputs("\"holders\":[", out);
	for (size_t i = 0; i < count && !err; i++) {
		fputs(i ? ",\n" : "\n", out);
		err = write_holder(r, &items[i], out);
	}
	fputs("],\n", out);
	return err;
}

static struct error *must_check write_strings(const struct retained *r, FILE *out)
{
	struct error *err = NULL;

	fputs("\"strings\":[", out);
	for (size_t i = 0; i < r->strings.count && !err; i++) {
		const struct equal_string *s = &r->strings.items[i];

		fputs(i ? ",\n{\"text\":" : "\n{\"text\":", out);
		err = json_text_write(s->text, out);
		fprintf(out,
			",\"length\":%" PRIu64 ",\"count\":%" PRIu64 ",\"bytes\":%" PRIu64
			",\"wasted_bytes\":%" PRIu64 "}",
			s->length, s->count, s->bytes, equal_string_wasted(s));
	}
	fputs("],\n", out);
	return err;
}

struct error *retained_write_tables(struct retained *r, FILE *out)
{
	struct error *err = write_types(r, out);

	if (!err)
		err = write_holders(r, out);
	if (!err)
		err = write_strings(r, out);
	fprintf(out,
		"\"exact\":%s,\"error_percent\":%.3g,\"objects\":%" PRIu32
		",\"retained_bytes\":%" PRIu64 ",\"heap_bytes\":%" PRIu64
		",\"unread_bytes\":%" PRIu64 "}\n",
		r->is_exact ? "true" : "false", retained_error_percent(r), r->graph.count,
		r->graph.bytes, r->graph.spans.bytes, r->graph.unread);
	return err;
}

struct error *retained_write_json(struct retained *r, FILE *out)
{
	fputc('{', out);
	return retained_write_tables(r, out);
}
