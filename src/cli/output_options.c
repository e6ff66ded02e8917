#include "cli/output_options.h"

#include <gospect/confine.h>
#include <string.h>
#include <unistd.h>

#include "cli/cpu_limit.h"

#include "cli/format_names.h"

static const struct argp_option options[] =
	{{NULL, 0, NULL, 0, "Output:", 2},
	 {"output", 'o', "FILE", 0, "Write to this file, with mode 0600; - is standard output", 2},
	 {"format", 'f', "FORMAT", 0, "Write this format; without -f the file's name decides", 2},
	 {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct output_options *o = state->input;

	switch (key) {
	case 'o':
		if (!*arg)
			return wrong_option(state, "-o needs a file name");
		o->path = arg;
		return 0;
	case 'f':
		o->format = arg;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

const struct argp output_argp = {options, parse, NULL, NULL, NULL, NULL, NULL};

bool output_is_terminal(const struct output_options *o)
{
	return (!o->path || !strcmp(o->path, "-")) && isatty(STDOUT_FILENO);
}

struct error *output_check(const struct output_options *o, const char *verb,
			   enum gospect_format format)
{
	if ((format != GOSPECT_PPROF && format != GOSPECT_HTML) || !output_is_terminal(o))
		return NULL;
	return error_format(
		ERROR_USAGE,
		"%s: standard output is a terminal, which cannot show the format %s; use -o FILE",
		verb, format_name(format));
}

struct error *output_text_or_json(const struct output_options *o, const char *verb,
				  enum gospect_format *ret)
{
	enum gospect_format format = GOSPECT_TEXT;

	if (o->format)
		format = format_named(o->format);
	else if (o->path && format_for_dump(o->path) == GOSPECT_JSON)
		format = GOSPECT_JSON;
	if (format != GOSPECT_TEXT && format != GOSPECT_JSON)
		return error_format(ERROR_USAGE, "%s: unknown format '%s'; use text or json", verb,
				    o->format);
	*ret = format;
	return NULL;
}

static int put(void *arg, const void *bytes, size_t size)
{
	say_work(NULL);
	outfile_write(arg, bytes, size);
	return 0;
}

struct gospect_sink output_sink(struct outfile *out)
{
	return gospect_sink_function(put, out);
}

struct error *output_confine(const char *const *files, const char *source, struct outfile *out)
{
	const struct gospect_confine_options how = {.size = sizeof(how),
						    .files = files,
						    .output = output_handle(out),
						    .cpu_seconds = cpu_limit(files),
						    .remark = say_remark,
						    .source = source};

	return library_error(gospect_confine(&how));
}
