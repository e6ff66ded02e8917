#include <gospect/unwind_info.h>
#include <stdio.h>
#include <string.h>

#include "lib/error_api.h"
#include "lib/sink.h"
#include "unwindinfo/unwind_file.h"

static struct error *must_check write_info(const char *program, enum unwind_file_kind kind,
					   const struct gospect_sink *sink, struct unwind_file *ret)
{
	struct sink_stream out;
	struct error *err = sink_open(sink, &out);

	if (err)
		return err;
	return sink_close(&out, unwind_file_write(program, kind, out.file, ret));
}

static struct error *must_check make(const char *program, enum unwind_file_kind kind,
				     const struct gospect_sink *sink,
				     struct gospect_unwind_info *ret)
{
	static const char name[] = "gospect_unwind_info";
	struct unwind_file made = {0};
	struct error *err = NULL;

	if (ret && ret->size < sizeof(*ret))
		err = error_format(ERROR_USAGE,
				   "struct %s has no valid size; set .size = sizeof(struct %s)",
				   name, name);
	if (!err)
		err = write_info(program, kind, sink, &made);
	if (err || !ret)
		return err;
	ret->functions = made.functions;
	ret->left_out = made.left_out;
	snprintf(ret->build_id, sizeof(ret->build_id), "%.128s", made.build_id);
	return NULL;
}

struct gospect_error *gospect_unwind_info_write(const char *program, struct gospect_sink sink,
						struct gospect_unwind_info *ret)
{
	return error_out(make(program, UNWIND_FILE_DEBUG, &sink, ret));
}

struct gospect_error *gospect_unwind_info_copy(const char *program, struct gospect_sink sink,
					       struct gospect_unwind_info *ret)
{
	return error_out(make(program, UNWIND_FILE_COPY, &sink, ret));
}
