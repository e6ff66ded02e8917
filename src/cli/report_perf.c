#include "cli/report_perf.h"

#include <string.h>
#include <sys/stat.h>

bool report_perf_wanted(const struct output_options *output)
{
	static const char suffix[] = ".data";
	size_t length = output->path ? strlen(output->path) : 0;

	if (output->format)
		return !strcmp(output->format, "perf");
	return length >= strlen(suffix) && !strcmp(output->path + length - strlen(suffix), suffix);
}

static bool same_file(const char *a, const char *b)
{
	struct stat x, y;

	return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

struct error *report_perf_check(const struct report_ask *ask, const struct output_options *output,
				const char *path)
{
	if (ask->is_chosen || ask->only || ask->groups || ask->wakers || ask->paths ||
	    ask->machine || ask->rows_given || ask->source || ask->compares)
		return error_format(
			ERROR_USAGE,
			"report: -f perf (-o FILE.data) writes the whole recording again, and supports no other option than --exe");
	if (output->path && same_file(output->path, path))
		return error_format(ERROR_USAGE,
				    "report: -o %s would replace the recording itself; use another "
				    "name, such as right.data",
				    output->path);
	if (output_is_terminal(output))
		return error_format(
			ERROR_USAGE,
			"report: standard output is a terminal, which cannot show the format perf; "
			"use -o FILE.data");
	return NULL;
}

struct error *report_perf_write(const struct report_file *file, struct outfile *out)
{
	const struct gospect_recorded_options how = {.size = sizeof(how),
						     .exe = file->exe,
						     .name = file->path,
						     .remark = say_remark};

	if (gospect_recorded_kind(file->bytes, file->size) != GOSPECT_RECORDED_PERF_DATA)
		return error_format(ERROR_USAGE,
				    "report: -f perf needs a perf.data file; %s is not one",
				    file->path);
	return report_file_error(file,
				 library_error(gospect_recorded_rewrite(file->bytes, file->size,
									&how, output_sink(out))));
}
