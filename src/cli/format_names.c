#include "cli/format_names.h"

#include <string.h>

#include "base/array.h"

static const char *const names[] = {
	[GOSPECT_TEXT] = "text",
	[GOSPECT_JSON] = "json",
	[GOSPECT_PPROF] = "pprof",
	[GOSPECT_FOLDED] = "folded",
	[GOSPECT_HTML] = "html",
	[GOSPECT_SPEEDSCOPE] = "speedscope",
	[GOSPECT_FOLDED_STATE] = "folded-state",
	[GOSPECT_FIREFOX] = "firefox",
};

enum gospect_format format_named(const char *name)
{
	for (size_t i = GOSPECT_TEXT; i < ARRAY_SIZE(names); i++)
		if (names[i] && !strcmp(name, names[i]))
			return (enum gospect_format)i;
	return (enum gospect_format)0;
}

const char *format_name(enum gospect_format format)
{
	return names[format];
}

static int has_suffix(const char *s, const char *suffix)
{
	size_t n = strlen(s), m = strlen(suffix);

	return n >= m && !strcmp(s + n - m, suffix);
}

/* The format of each suffix, by index; the first match counts. NULL ends the list. */
static const char *const suffixes[] = {".pb.gz", ".pprof", ".folded", ".firefox.json",
				       ".json",  ".html",  NULL};
static const enum gospect_format formats[] = {GOSPECT_PPROF,   GOSPECT_PPROF,      GOSPECT_FOLDED,
					      GOSPECT_FIREFOX, GOSPECT_SPEEDSCOPE, GOSPECT_HTML};

const char *const *format_profile_suffixes(void)
{
	return suffixes;
}

enum gospect_format format_for_profile(const char *path)
{
	for (size_t i = 0; suffixes[i]; i++)
		if (has_suffix(path, suffixes[i]))
			return formats[i];
	return (enum gospect_format)0;
}

enum gospect_format format_for_dump(const char *path)
{
	enum gospect_format format = format_for_profile(path);

	return format == GOSPECT_SPEEDSCOPE ? GOSPECT_JSON : format;
}
