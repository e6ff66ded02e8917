#include "cli/heap_retained.h"

#include <gospect/retained.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "cli/format_names.h"
#include "cli/look.h"

struct holding {
	const struct exact_options *exact;
	enum gospect_format format;
	uint32_t rows;
};

static bool ends_in(const char *path, const char *with)
{
	size_t n = path ? strlen(path) : 0, m = strlen(with);

	return n >= m && !strcmp(path + n - m, with);
}

/* A .json file is the object of -f json, not speedscope's. */
static enum gospect_format format_of(const struct output_options *o)
{
	if (o->format)
		return !strcmp(o->format, "hprof") ? GOSPECT_HPROF : format_named(o->format);
	if (ends_in(o->path, ".json"))
		return GOSPECT_JSON;
	if (ends_in(o->path, ".hprof"))
		return GOSPECT_HPROF;
	if (o->path && format_for_profile(o->path))
		return format_for_profile(o->path);
	return GOSPECT_TEXT;
}

static struct error *choose_format(const struct output_options *o, enum gospect_format *ret)
{
	static const enum gospect_format known[] = {GOSPECT_TEXT,      GOSPECT_JSON,
						    GOSPECT_HTML,      GOSPECT_HPROF,
						    GOSPECT_PPROF,     GOSPECT_FOLDED,
						    GOSPECT_SPEEDSCOPE};

	*ret = format_of(o);
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (known[i] == *ret)
			return output_check(o, "heap", *ret);
	return error_format(
		ERROR_USAGE,
		"heap --retained: unknown format '%s'; use text, json, html, hprof, pprof, folded or speedscope",
		o->format ?: "firefox");
}

static void cleanup_retained_handle(struct gospect_retained **r)
{
	gospect_retained_destroy(*r);
}

static struct error *find_and_write(const struct holding *h, const struct cli_target *s,
				    struct outfile *out)
{
	const struct gospect_retained_options how = {.size = sizeof(how), .rows = h->rows};
	_cleanup_(cleanup_retained_handle) struct gospect_retained *retained = NULL;
	struct error *err = library_error(gospect_retained_find(s->handle, &how, &retained));

	if (err)
		return err;
	return library_error(gospect_retained_write(retained, h->format, output_sink(out)));
}

/* Writing reads objects, too. */
static struct error *look(void *verb, const struct cli_target *s, struct outfile *out)
{
	const struct holding *h = verb;
	struct error *err = exact_begin(h->exact, s), *lost;

	if (err)
		return err;
	err = find_and_write(h, s, out);
	lost = exact_end(h->exact, s);
	error_destroy(lost ? err : NULL);
	return lost ? lost : err;
}

struct error *heap_retained(struct common_options *request, const struct exact_options *exact,
			    uint32_t rows, int *ret)
{
	struct holding h = {.exact = exact, .rows = rows};
	struct error *err = exact_options_check(exact, "heap --retained");

	if (!err)
		err = choose_format(&request->output, &h.format);

	if (err)
		return err;
	request->target.reads_alone = true;
	request->target.completes = true;
	return look_once(request, look, &h, ret);
}
