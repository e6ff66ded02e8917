/* Where a verb's data goes: -o FILE and -f FORMAT. */
#ifndef CLI_OUTPUT_OPTIONS_H
#define CLI_OUTPUT_OPTIONS_H

#include <gospect/write.h>

#include "base/outfile.h"
#include "cli/cli.h"

struct output_options {
	const char *path;   /* NULL: standard output */
	const char *format; /* NULL: by the file's name */
};

/* A child parser; its input is struct output_options. */
extern const struct argp output_argp;

/* Whether binary data would go to a terminal. */
bool output_is_terminal(const struct output_options *o);
/* ERROR_USAGE when data of this format would go to a terminal that cannot show it. */
struct error *output_check(const struct output_options *o, const char *verb,
			   enum gospect_format format) must_check;

/* For a verb whose formats are text and json: by -f FORMAT, else by a name that ends in .json. */
struct error *output_text_or_json(const struct output_options *o, const char *verb,
				  enum gospect_format *ret) must_check;

/* A sink for the library. outfile_commit() reports failed writes. */
struct gospect_sink output_sink(struct outfile *out);

/* Drops privilege: from now on gospect can read these files (NULL-terminated) and the Go files
 * below `source` (or NULL), and write the output only. */
struct error *output_confine(const char *const *files, const char *source,
			     struct outfile *out) must_check;

/* A struct gospect_output is a struct outfile, seen from outside. NULL stays NULL. */
static inline struct gospect_output *output_handle(struct outfile *out)
{
	return (struct gospect_output *)out;
}

#endif
