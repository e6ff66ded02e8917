#include "cli/source_option.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

enum { KEY_SOURCE = 0x5300 };

static const struct argp_option options[] =
	{{"source", KEY_SOURCE, "DIR", 0,
	  "Put source lines of functions that have time into the page, from files below DIR", 2},
	 {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	const char **folder = state->input;

	if (key != KEY_SOURCE)
		return ARGP_ERR_UNKNOWN;
	*folder = arg;
	return 0;
}

const struct argp source_argp = {.options = options, .parser = parse};

struct error *source_check(const char *folder, enum gospect_format format, const char *verb)
{
	struct stat st;
	int failed = 0;

	if (!folder)
		return NULL;
	if (format != GOSPECT_HTML)
		return error_format(ERROR_USAGE,
				    "%s: --source supports html only; use -o FILE.html or -f html",
				    verb);
	if (stat(folder, &st))
		failed = errno;
	else if (!S_ISDIR(st.st_mode))
		failed = ENOTDIR;
	if (!failed)
		return NULL;
	return error_format(ERROR_FAILED,
			    "cannot open the source directory %s: %s; use the directory in which "
			    "the program was built",
			    folder, strerror(failed));
}

struct error *source_add(const char *folder, struct gospect_profile *profile)
{
	size_t files = 0;
	struct error *err = NULL;

	if (folder)
		err = library_error(gospect_profile_add_sources(profile, folder, &files));
	if (folder && !err && !files)
		say("no source of the profile's functions is below %s; use the directory and the "
		    "version that the program was built from",
		    folder);
	return err;
}
