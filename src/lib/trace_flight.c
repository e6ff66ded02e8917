#include "lib/trace_flight.h"

#include <sys/stat.h>

#include "base/clock.h"
#include "base/door.h"
#include "lib/error_api.h"
#include "lib/resident.h"

/* New files are created beside it, which is not allowed in /dev. */
struct error *flight_check_name(const char *path)
{
	struct stat st;

	if (stat(path, &st) || S_ISREG(st.st_mode))
		return NULL;
	return error_format(
		ERROR_FAILED,
		"cannot write %s: it is a directory, a pipe or a device, and --flight writes new files "
		"beside it; choose another name",
		path);
}

struct error *flight_too_small(const struct gospect_trace *t)
{
	return error_format(
		ERROR_FAILED,
		"no trace written: one second of this program needs more than %g MB; raise --max-size",
		trace_megabytes(t));
}

static double seconds_kept(const struct gospect_trace *t)
{
	return (t->last_ns - trace_file_began(t->file)) / 1e9;
}

/* The broker, where there is one, removes old files itself. */
static void forget_old(struct gospect_trace *t)
{
	struct error *err = door_is_brokered() ? NULL : kept_files_add(&t->kept, t->incident);

	if (err)
		remark(&t->target->remark, "%s", err->message);
	error_destroy(err);
}

static struct error *must_check write_incident(struct gospect_trace *t, const char *reason)
{
	struct error *err;

	if (trace_file_is_outgrown(t->file))
		return flight_too_small(t);
	err = trace_file_write(t->file, reason, &t->incident);
	if (err)
		return err;
	t->is_news = false;
	if (t->options.incident_written)
		t->options.incident_written(t->options.arg, t->incident, seconds_kept(t), NULL);
	forget_old(t);
	return NULL;
}

/* A requested file must include everything up to the request. */
static bool is_asked_for(struct gospect_trace *t, const struct trace_batch *batch)
{
	if (atomic_exchange(&t->write_requested, false)) {
		t->asked_ns = clock_now() - tracer_start(t->tracer);
		tracer_flush_now(t->tracer);
	}
	return t->asked_ns && batch->until_ns >= t->asked_ns;
}

#define RSS_NS 1000000000ull

static void see_rss(struct gospect_trace *t)
{
	uint64_t now = clock_now();
	struct resident r;

	if (!t->watch || !watch_wants_rss(t->watch) || now - t->rss_ns < RSS_NS)
		return;
	t->rss_ns = now;
	r = resident_read(target_pid(t->target->target));
	watch_see_rss(t->watch, r.rss, r.limit);
}

bool flight_is_due(struct gospect_trace *t, const struct trace_batch *batch)
{
	struct incident incident;

	if (!(t->options.flight > 0))
		return false;
	see_rss(t);
	if (!t->watch || !watch_take(t->watch, &incident))
		return is_asked_for(t, batch);
	remark(&t->target->remark, "%s", incident.sentence);
	t->why = incident.word;
	return true;
}

struct error *flight_write(struct gospect_trace *t)
{
	struct error *err = write_incident(t, t->why ?: "usr1");

	if (!t->why)
		t->asked_ns = 0;
	t->why = NULL;
	if (err && t->options.incident_written)
		t->options.incident_written(t->options.arg, NULL, 0, error_out(err));
	if (t->options.flight_written)
		t->options.flight_written(t->options.arg, err ? 0 : seconds_kept(t),
					  error_out(err));
	error_destroy(err);
	return NULL;
}

struct error *flight_write_last(struct gospect_trace *t, bool failed)
{
	const char *reason = failed ? "error" : t->reason ?: "exit";

	if (!t->incident || t->is_news)
		return write_incident(t, reason);
	remark(&t->target->remark,
	       "nothing has happened since %s was written, so it is the last file", t->incident);
	return NULL;
}
