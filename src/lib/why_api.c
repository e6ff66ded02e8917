/* From the options to the findings: measures (lib/why.h), then applies the rules (src/why). */
#include <gospect/why.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "lib/error_api.h"
#include "lib/options.h"
#include "lib/sink.h"
#include "lib/why.h"
#include "why/why_rules.h"

#define DEFAULT_SECONDS 10
#define LEAST_SECONDS 0.1
#define MOST_SECONDS 86400
/* Looks at who waits for whom: one finds cycles; more, who holds a lock mostly. */
#define LOOKS 1
#define LOOKS_AT_HOLDERS 5
/* Waiters from which on holders matter. */
#define LEAST_WAITERS 0.5

struct gospect_why {
	struct why_findings findings;
	struct gospect_why_info info;
	struct gospect_cause *causes;
};

void gospect_why_destroy(struct gospect_why *w)
{
	if (!w)
		return;
	why_findings_release(&w->findings);
	free(w->causes);
	free(w);
}

static void cleanup_why(struct gospect_why **w)
{
	gospect_why_destroy(*w);
}

/* What is called during the recording. */
struct ticking {
	struct why_machine *machine;
	const struct gospect_why_options *options;
};

static void tick(void *arg, double seconds)
{
	struct ticking *t = arg;

	why_machine_look(t->machine);
	if (t->options->progress)
		t->options->progress(t->options->arg, seconds);
}

static bool has_waiters(const struct why_numbers *n)
{
	return n->of_kind[STACK_LOCK] >= LEAST_WAITERS || n->of_kind[STACK_SEND] >= LEAST_WAITERS;
}

static struct error *must_check measure_process(struct gospect_target *t,
						const struct gospect_why_options *o,
						struct why_numbers *n)
{
	_cleanup_why_machine_ struct why_machine machine = {0};
	struct ticking ticking = {&machine, o};
	const struct why_recording how = {t, o->duration, tick, &ticking};
	bool ended = false;
	struct error *err;

	why_machine_begin(&machine, t);
	err = why_record(&how, n, &ended);
	if (err)
		return err;
	if (ended) {
		remark(&t->remark, "the process ended; the findings are about the time before");
		return NULL;
	}
	err = why_machine_end(&machine, n);
	if (err)
		return err;
	err = why_waits(t, has_waiters(n) ? LOOKS_AT_HOLDERS : LOOKS, n);
	/* A first Ctrl-C ends the recording, not what follows. */
	return err == &error_stopped ? NULL : err;
}

static struct error *must_check measure(struct gospect_target *t,
					const struct gospect_why_options *o, struct why_numbers *n)
{
	const struct target_core *core = target_core(t->target);
	_cleanup_strbuf_ struct strbuf target = STRBUF_INIT;
	struct error *err;

	if (core)
		strbuf_addf(&target, "--core %s", core->path);
	else
		strbuf_addf(&target, "-p %d", target_pid(t->target));
	n->target = why_keep(n, target.data);
	if (core) {
		n->is_core = true;
		err = why_core(t, n);
		return err ? err : why_waits(t, LOOKS, n);
	}
	target_remark_stopped(t);
	return measure_process(t, o, n);
}

static struct error *must_check describe(const struct why_numbers *n, struct gospect_why *w)
{
	w->info = (struct gospect_why_info){.seconds = n->seconds,
					    .goroutines = n->goroutines,
					    .cores = n->cpu.cores,
					    .finding_count = w->findings.count,
					    .unknown_count = w->findings.unknown_count};
	w->causes = calloc(w->findings.count + 1, sizeof(*w->causes));
	for (size_t i = 0; w->causes && i < w->findings.count; i++) {
		const struct why_finding *f = &w->findings.items[i];

		w->causes[i] = (struct gospect_cause){f->kind, why_severity_name(f->severity),
						      f->sentence, f->evidence, f->next};
	}
	return w->causes ? NULL : &error_no_memory;
}

static struct error *must_check take_options(const struct gospect_why_options *given,
					     struct gospect_why_options *o)
{
	struct error *err = options_take(given, o, sizeof(*o), "gospect_why_options");

	if (err)
		return err;
	o->duration = o->duration == 0 ? DEFAULT_SECONDS : o->duration;
	if (!(o->duration >= LEAST_SECONDS && o->duration <= MOST_SECONDS))
		return error_format(ERROR_USAGE, "invalid duration %g s; the range is %g to %d",
				    o->duration, LEAST_SECONDS, MOST_SECONDS);
	return NULL;
}

static struct error *must_check take(struct gospect_target *t,
				     const struct gospect_why_options *given, struct gospect_why *w)
{
	_cleanup_(why_numbers_release) struct why_numbers n;
	struct gospect_why_options o = {0};
	struct error *err = take_options(given, &o);

	why_numbers_init(&n);
	if (!err)
		err = target_check_cancel(t);
	if (!err)
		err = measure(t, &o, &n);
	if (!err)
		err = why_find(&n, &w->findings);
	return err ? err : describe(&n, w);
}

struct gospect_error *gospect_why_take(struct gospect_target *t,
				       const struct gospect_why_options *given,
				       struct gospect_why **ret)
{
	_cleanup_(cleanup_why) struct gospect_why *w = calloc(1, sizeof(*w));
	struct error *err = w ? take(t, given, w) : &error_no_memory;

	if (!err)
		*ret = take_ptr(w);
	return error_out(err);
}

const struct gospect_why_info *gospect_why_info(const struct gospect_why *w)
{
	return &w->info;
}

const struct gospect_cause *gospect_why_finding(const struct gospect_why *w, size_t i)
{
	return i < w->findings.count ? &w->causes[i] : NULL;
}

const char *gospect_why_unknown(const struct gospect_why *w, size_t i)
{
	return i < w->findings.unknown_count ? w->findings.unknown[i] : NULL;
}

struct gospect_error *gospect_why_write(const struct gospect_why *w, enum gospect_format format,
					struct gospect_sink sink)
{
	struct sink_stream out;
	struct error *err;

	if (format != GOSPECT_JSON)
		return error_out(error_format(ERROR_USAGE,
					      "invalid format %d for findings; use GOSPECT_JSON",
					      format));
	err = sink_open(&sink, &out);
	if (err)
		return error_out(err);
	why_write_json(&w->findings, out.file);
	return error_out(sink_close(&out, NULL));
}
