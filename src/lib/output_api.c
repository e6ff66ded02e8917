#include "lib/output_api.h"

#include <stdlib.h>

#include "lib/error_api.h"

struct gospect_error *gospect_output_open(const char *path, struct gospect_output **ret)
{
	struct outfile *out = calloc(1, sizeof(*out));
	struct error *err = out ? outfile_open(path, out) : &error_no_memory;

	if (err)
		free(out);
	else
		*ret = (struct gospect_output *)out;
	return error_out(err);
}

static int put(void *arg, const void *bytes, size_t size)
{
	outfile_write(arg, bytes, size);
	return 0;
}

struct gospect_sink gospect_output_sink(struct gospect_output *output)
{
	return gospect_sink_function(put, output_file(output));
}

struct gospect_error *gospect_output_commit(struct gospect_output *output)
{
	return error_out(outfile_commit(output_file(output)));
}

void gospect_output_close(struct gospect_output *output)
{
	if (!output)
		return;
	outfile_abandon(output_file(output));
	free(output);
}
