#include "cli/look.h"

#include "base/printable.h"
#include "cli/stop.h"

static const char *heading;

void look_set_heading(const char *text)
{
	heading = text;
}

void look_write_heading(FILE *out)
{
	if (heading)
		printable_line(out, "%s", heading);
	if (heading)
		fputc('\n', out);
}

struct error *look_once(struct common_options *request,
			struct error *(*work)(void *verb, const struct cli_target *target,
					      struct outfile *out),
			void *verb, int *ret)
{
	const char *path = request->output.path;
	_cleanup_outfile_ struct outfile out = {0};
	_cleanup_cli_target_ struct cli_target s = {0};
	/* Opened first: an invalid name must not cost a look at a large target. */
	struct error *err = outfile_open(path ? path : "-", &out);

	if (err)
		return err;
	request->target.out = &out;
	/* Writing takes a moment. A signal must not lose it. */
	if (path)
		stop_on_signals();
	if (request->target.core)
		say_work_on("reading", request->target.core);
	err = cli_target_open(&request->target, &s);
	if (!err)
		look_write_heading(out.stream);
	if (!err)
		err = work(verb, &s, &out);
	if (!err)
		err = outfile_commit(&out);
	say_work(NULL);
	return cli_target_finish(&s, err, ret);
}
