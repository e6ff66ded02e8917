#include "serve/serve_work.h"

#include <fcntl.h>
#include <gospect/gospect.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/door.h"
#include "serve/serve_page.h"
#include "serve/serve_reply.h"
#include "serve/serve_route.h"
#include "serve/serve_watch.h"

/* The ticks of a CPU profile, as runtime/pprof has them. */
#define CPU_RATE 100
/* The largest trace. */
#define TRACE_BYTES (256ull << 20)
/* How often a wait looks whether anybody still waits for the answer. */
#define LOOK_NS 20000000L
/* The longest command line, as the kernel's MAX_ARG_STRLEN for one argument. */
#define MOST_COMMAND (128u << 10)

struct work {
	const struct serve_job *job;
	struct serve_reply reply;
	struct gospect_target *target;
	struct gospect_surgeon *surgeon;
	struct gospect_trace *trace;
	struct serve_store *store; /* of the last hour; NULL: there is none */
};

/* Requested when the front closes the leash. */
static struct gospect_cancel *cancel;

static struct error *must_check taken(struct gospect_error *err)
{
	struct error *ret;

	if (!err)
		return NULL;
	ret = error_format((enum error_code)gospect_error_code(err), "%s",
			   gospect_error_message(err));
	gospect_error_destroy(err);
	return ret;
}

/* ---- profiles ---- */

static void drop_profile(struct gospect_profile **p)
{
	gospect_profile_destroy(*p);
}
#define _cleanup_profile_ _cleanup_(drop_profile)

static enum gospect_format format_of(uint32_t format)
{
	switch (format) {
	case SERVE_HTML:
		return GOSPECT_HTML;
	case SERVE_FOLDED:
		return GOSPECT_FOLDED;
	case SERVE_SPEEDSCOPE:
		return GOSPECT_SPEEDSCOPE;
	default:
		return GOSPECT_PPROF;
	}
}

static enum serve_type type_of(enum gospect_format format)
{
	switch (format) {
	case GOSPECT_HTML:
		return SERVE_TYPE_FLAME;
	case GOSPECT_FOLDED:
	case GOSPECT_TEXT:
	case GOSPECT_DEBUG_TEXT:
		return SERVE_TYPE_TEXT;
	case GOSPECT_SPEEDSCOPE:
	case GOSPECT_JSON:
		return SERVE_TYPE_JSON;
	default:
		return SERVE_TYPE_BINARY;
	}
}

static struct error *must_check write_profile(struct work *w, struct gospect_profile *p,
					      enum gospect_format format)
{
	w->reply.type = type_of(format);
	return taken(gospect_profile_write(p, format, serve_reply_sink(&w->reply)));
}

static struct error *must_check record(struct work *w, uint32_t flags, enum gospect_format format)
{
	const struct gospect_record_options how = {
		.size = sizeof(how),
		.rate = CPU_RATE,
		.duration = w->job->request.seconds,
		.budget = w->job->limits->budget,
		.flags = flags | GOSPECT_RECORD_NAMES |
			 (format == GOSPECT_HTML ? GOSPECT_RECORD_GOROUTINES : 0),
	};
	_cleanup_profile_ struct gospect_profile *p = NULL;
	struct error *err = taken(gospect_record(w->target, &how, &p));

	return err ? err : write_profile(w, p, format);
}

static struct error *work_profile(struct work *w)
{
	return record(w, GOSPECT_RECORD_ON_CPU, GOSPECT_PPROF_CPU);
}

static struct error *work_wall(struct work *w)
{
	return record(w, 0, format_of(w->job->request.format));
}

static struct error *work_offcpu(struct work *w)
{
	return record(w, GOSPECT_RECORD_OFF_CPU, format_of(w->job->request.format));
}

/* ---- what the runtime keeps ---- */

static struct error *must_check take_kept(struct work *w, uint32_t kind,
					  struct gospect_profile **ret)
{
	const struct gospect_heap_options how = {.size = sizeof(how),
						 .kind = kind - SERVE_HEAP + GOSPECT_HEAP};

	return taken(gospect_heap_profile(w->target, &how, ret));
}

static void wait_for(double seconds)
{
	const struct timespec pause = {.tv_nsec = LOOK_NS};

	for (double left = seconds; left > 0 && !gospect_cancel_is_requested(cancel);
	     left -= LOOK_NS / 1e9)
		nanosleep(&pause, NULL);
}

/* What changed in so many seconds. */
static struct error *must_check take_difference(struct work *w, uint32_t kind,
						struct gospect_profile **ret)
{
	_cleanup_profile_ struct gospect_profile *before = NULL, *after = NULL;
	struct error *err = take_kept(w, kind, &before);

	if (err)
		return err;
	wait_for(w->job->request.seconds);
	err = take_kept(w, kind, &after);
	if (!err)
		err = taken(gospect_profile_subtract(after, before));
	if (!err)
		*ret = take_ptr(after);
	return err;
}

static void drop_snapshot(struct gospect_snapshot **s)
{
	gospect_snapshot_destroy(*s);
}

static void drop_leaks(struct gospect_leaks **leaks)
{
	gospect_leaks_destroy(*leaks);
}
#define _cleanup_leaks_ _cleanup_(drop_leaks)

/* goroutine and goroutineleak with debug=2: as an unrecovered panic prints them. */
static struct error *must_check dump(struct work *w, bool marks_leaks)
{
	_cleanup_(drop_snapshot) struct gospect_snapshot *s = NULL;
	_cleanup_leaks_ struct gospect_leaks *leaks = NULL;
	struct error *err = NULL;

	if (marks_leaks)
		err = taken(gospect_leaks_find(w->target, NULL, &leaks));
	if (!err)
		err = taken(gospect_snapshot_take(w->target, NULL, &s));
	if (!err && marks_leaks)
		err = taken(gospect_snapshot_mark_leaks(s, leaks));
	w->reply.type = SERVE_TYPE_TEXT;
	return err ? err
		   : taken(gospect_snapshot_write(s, GOSPECT_TEXT, 0, serve_reply_sink(&w->reply)));
}

static struct error *work_kept(struct work *w)
{
	const struct serve_request *r = &w->job->request;
	_cleanup_profile_ struct gospect_profile *p = NULL;
	struct error *err;

	if ((r->kind == SERVE_GOROUTINE || r->kind == SERVE_GOROUTINELEAK) && r->debug == 2)
		return dump(w, r->kind == SERVE_GOROUTINELEAK);
	err = r->seconds > 0 ? take_difference(w, r->kind, &p) : take_kept(w, r->kind, &p);
	if (err)
		return err;
	return write_profile(w, p, r->debug ? GOSPECT_DEBUG_TEXT : GOSPECT_PPROF);
}

/* How many stacks a profile has, as its Count() in the program. */
static struct error *must_check count_kept(struct work *w, uint32_t kind, uint64_t *ret)
{
	_cleanup_profile_ struct gospect_profile *p = NULL;
	const struct gospect_sample *const *samples;
	size_t count = 0;
	struct error *err = take_kept(w, kind, &p);

	if (!err)
		err = taken(gospect_profile_samples(p, &samples, &count));
	*ret = count;
	for (size_t i = 0; !err && kind == SERVE_THREADCREATE && i < count; i++)
		*ret += samples[i]->count - 1;
	return err;
}

static struct error *work_index(struct work *w)
{
	_cleanup_strbuf_ struct strbuf page = STRBUF_INIT;
	struct serve_counts counts = {{0}};
	size_t goroutines;
	struct error *err = taken(gospect_target_count_goroutines(w->target, &goroutines));

	if (err)
		return err;
	/* Leaked goroutines take a look at the whole heap. */
	counts.unknown[SERVE_GOROUTINELEAK] = true;
	for (uint32_t kind = SERVE_HEAP; kind <= SERVE_THREADCREATE; kind++)
		if (kind == SERVE_GOROUTINE)
			counts.stacks[kind] = goroutines;
		else
			counts.unknown[kind] =
				error_dropped(count_kept(w, kind, &counts.stacks[kind]));
	w->reply.type = SERVE_TYPE_HTML;
	serve_page_index(&page, gospect_target_info(w->target), &counts, w->job->limits->traces);
	return serve_reply_text(&w->reply, &page);
}

/* ---- the rest of net/http/pprof ---- */

static struct error *work_cmdline(struct work *w)
{
	char path[32], bytes[4096];
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	_cleanup_close_ int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", w->job->request.pid);
	fd = door_open(path, 0);
	while (fd >= 0 && text.length < MOST_COMMAND && (n = read(fd, bytes, sizeof(bytes))) > 0)
		strbuf_add(&text, bytes, n);
	if (text.length && !text.data[text.length - 1])
		text.length--;
	w->reply.type = SERVE_TYPE_TEXT;
	return serve_reply_text(&w->reply, &text);
}

static struct error *work_symbol(struct work *w)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	/* pprof cares only whether this number is 0. */
	strbuf_adds(&text, "num_symbols: 1\n");
	for (uint32_t i = 0; i < w->job->request.address_count; i++) {
		const struct gospect_stack *stack;
		uint64_t address = w->job->addresses[i];

		if (error_dropped(taken(gospect_target_symbolize(w->target, address, &stack))) ||
		    !stack->count)
			continue;
		strbuf_addf(&text, "%#" PRIx64 " %s\n", address, stack->frames[0]->function);
	}
	w->reply.type = SERVE_TYPE_TEXT;
	return serve_reply_text(&w->reply, &text);
}

static struct error *work_trace(struct work *w)
{
	struct error *err = taken(gospect_trace_begin(w->trace, w->target, w->surgeon));

	return err ? err : taken(gospect_trace_run(w->trace));
}

static void drop_waits(struct gospect_waits **waits)
{
	gospect_waits_destroy(*waits);
}

static struct error *work_waits(struct work *w)
{
	static const struct {
		enum serve_type type;
		enum gospect_format format;
	} formats[SERVE_FORMATS] = {
		[SERVE_JSON] = {SERVE_TYPE_JSON, GOSPECT_JSON},
		[SERVE_TEXT] = {SERVE_TYPE_TEXT, GOSPECT_TEXT},
		[SERVE_DOT] = {SERVE_TYPE_DOT, GOSPECT_DOT},
	};
	uint32_t format = w->job->request.format;
	_cleanup_(drop_waits) struct gospect_waits *waits = NULL;
	struct error *err = taken(gospect_waits_take(w->target, NULL, &waits));

	w->reply.type = formats[format].type;
	return err ? err
		   : taken(gospect_waits_write(waits, formats[format].format,
					       serve_reply_sink(&w->reply)));
}

static void drop_footprint(struct gospect_footprint **footprint)
{
	gospect_footprint_destroy(*footprint);
}

static struct error *work_memory(struct work *w)
{
	uint32_t wanted = w->job->request.format;
	enum gospect_format format = wanted == SERVE_JSON   ? GOSPECT_JSON
				     : wanted == SERVE_TEXT ? GOSPECT_TEXT
							    : format_of(wanted);
	_cleanup_(drop_footprint) struct gospect_footprint *footprint = NULL;
	struct error *err = taken(gospect_footprint_take(w->target, NULL, &footprint));

	w->reply.type = type_of(format);
	return err ? err
		   : taken(gospect_footprint_write(footprint, format, serve_reply_sink(&w->reply)));
}

static void drop_why(struct gospect_why **why)
{
	gospect_why_destroy(*why);
}

static struct error *work_why(struct work *w)
{
	const struct gospect_why_options how = {.size = sizeof(how),
						.duration = w->job->request.seconds};
	_cleanup_(drop_why) struct gospect_why *why = NULL;
	struct error *err = taken(gospect_why_take(w->target, &how, &why));

	w->reply.type = SERVE_TYPE_JSON;
	return err ? err : taken(gospect_why_write(why, GOSPECT_JSON, serve_reply_sink(&w->reply)));
}

static struct error *work_leaks(struct work *w)
{
	bool is_text = w->job->request.format == SERVE_TEXT;
	_cleanup_leaks_ struct gospect_leaks *leaks = NULL;
	struct error *err = taken(gospect_leaks_find(w->target, NULL, &leaks));

	w->reply.type = is_text ? SERVE_TYPE_TEXT : SERVE_TYPE_JSON;
	return err ? err
		   : taken(gospect_leaks_write(leaks, is_text ? GOSPECT_TEXT : GOSPECT_JSON,
					       serve_reply_sink(&w->reply)));
}

/* ---- the last hour ---- */

static struct error *work_watch(struct work *w)
{
	w->reply.type = SERVE_TYPE_BINARY;
	return serve_watch(w->target, w->job->request.pid, w->store, cancel,
			   serve_reply_sink(&w->reply));
}

/* What was kept is as hostile as the process: this one is confined. */
static struct error *work_part(struct work *w)
{
	const struct serve_request *r = &w->job->request;
	double to = r->to > 0 ? r->to : (double)clock_read(CLOCK_REALTIME) / 1e9;
	double from = r->to > 0 ? r->from : to - r->seconds;

	if (!w->store)
		return error_format(ERROR_GONE,
				    "gospect keeps no history of this process; name it with -p");
	if (r->kind == SERVE_GREW) {
		w->reply.type = SERVE_TYPE_FLAME;
		return serve_growth_write(w->store, from, to, serve_reply_sink(&w->reply));
	}
	w->reply.type = type_of(format_of(r->format));
	return serve_hour_write(w->store, from, to, format_of(r->format),
				serve_reply_sink(&w->reply));
}

/* ---- all processes ---- */

struct listing {
	const struct serve_limits *limits;
	struct strbuf text;
	void (*add)(struct strbuf *text, const struct gospect_go_process *process);
};

static int add_process(void *arg, const struct gospect_go_process *process)
{
	struct listing *l = arg;

	l->add(&l->text, process);
	return 0;
}

static struct gospect_processes_options served(const struct serve_limits *l)
{
	struct gospect_processes_options how = {.size = sizeof(how), .cancel = cancel};

	if (l->children) {
		how.ancestors = l->pids;
		how.ancestor_count = l->pid_count;
	} else {
		how.pids = l->pids;
		how.pid_count = l->pid_count;
	}
	return how;
}

static struct error *must_check list(struct listing *l)
{
	const struct gospect_processes_options how = served(l->limits);

	return taken(gospect_processes_each(&how, add_process, l, NULL));
}

static struct error *work_home(struct work *w)
{
	struct listing l = {w->job->limits, STRBUF_INIT, serve_page_add_process};
	_cleanup_strbuf_ struct strbuf page = STRBUF_INIT;
	struct error *err = list(&l);

	w->reply.type = SERVE_TYPE_HTML;
	if (!err) {
		serve_page_home(&page, &l.text);
		err = serve_reply_text(&w->reply, &page);
	}
	strbuf_release(&l.text);
	return err;
}

static int put_listed(void *arg, const struct gospect_go_process *p)
{
	struct work *w = arg;
	const struct gospect_sink to = serve_reply_sink(&w->reply);
	struct serve_listed listed = {.pid = p->pid, .start = p->start};

	snprintf(listed.name, sizeof(listed.name), "%s", p->name);
	return *p->problem ? 0 : to.write(to.arg, &listed, sizeof(listed));
}

static struct error *work_list(struct work *w)
{
	const struct gospect_processes_options how = served(w->job->limits);

	w->reply.type = SERVE_TYPE_BINARY;
	return taken(gospect_processes_each(&how, put_listed, w, NULL));
}

static struct error *work_metrics(struct work *w)
{
	struct listing l = {w->job->limits, STRBUF_INIT, serve_metrics_add_process};
	_cleanup_strbuf_ struct strbuf page = STRBUF_INIT;
	struct error *err = list(&l);

	w->reply.type = SERVE_TYPE_METRICS;
	if (!err) {
		serve_metrics_page(&page, &l.text);
		err = serve_reply_text(&w->reply, &page);
	}
	strbuf_release(&l.text);
	return err;
}

static struct error *(*const kinds[SERVE_KINDS])(struct work *w) = {
	[SERVE_HOME] = work_home,          [SERVE_INDEX] = work_index,
	[SERVE_CMDLINE] = work_cmdline,    [SERVE_PROFILE] = work_profile,
	[SERVE_SYMBOL] = work_symbol,      [SERVE_TRACE] = work_trace,
	[SERVE_HEAP] = work_kept,          [SERVE_ALLOCS] = work_kept,
	[SERVE_BLOCK] = work_kept,         [SERVE_MUTEX] = work_kept,
	[SERVE_GOROUTINE] = work_kept,     [SERVE_THREADCREATE] = work_kept,
	[SERVE_GOROUTINELEAK] = work_kept, [SERVE_WALL] = work_wall,
	[SERVE_OFFCPU] = work_offcpu,      [SERVE_WAITS] = work_waits,
	[SERVE_MEMORY] = work_memory,      [SERVE_METRICS] = work_metrics,
	[SERVE_WATCH] = work_watch,        [SERVE_WHY] = work_why,
	[SERVE_LEAKS] = work_leaks,        [SERVE_LIST] = work_list,
	[SERVE_RANGE] = work_part,         [SERVE_GREW] = work_part,
};

/* ---- the process ---- */

/* The surgeon is not confined: it starts before gospect is. */
static struct error *must_check prepare_trace(struct work *w)
{
	const struct gospect_trace_options how = {
		.size = sizeof(how),
		.duration = w->job->request.seconds,
		.max_bytes = TRACE_BYTES,
		.sink = serve_reply_sink(&w->reply),
	};
	struct error *err;

	w->reply.type = SERVE_TYPE_BINARY;
	err = taken(gospect_trace_create(&how, &w->trace));
	if (err)
		return err;
	err = taken(gospect_surgeon_start(w->job->request.pid, cancel, &w->surgeon));
	if (!err || err->code != ERROR_UNSUPPORTED)
		return err;
	error_destroy(err);
	return NULL;
}

/* Stacks of running goroutines come from samples by the kernel. */
static bool needs_samples(uint32_t kind)
{
	return kind == SERVE_PROFILE || kind == SERVE_WALL || kind == SERVE_OFFCPU ||
	       kind == SERVE_WATCH || kind == SERVE_WHY || kind == SERVE_LEAKS ||
	       kind == SERVE_GOROUTINE || kind == SERVE_GOROUTINELEAK;
}

static struct error *must_check confine(struct work *w)
{
	const char *files[2] = {w->job->limits->exe};
	bool samples = needs_samples(w->job->request.kind);
	const struct gospect_confine_options how = {
		.size = sizeof(how),
		.pid = w->job->request.pid,
		.flags = samples ? GOSPECT_CONFINE_SAMPLES : 0,
		.files = files,
		.trace = w->trace,
		.memory = w->job->limits->memory,
		.remark = serve_reply_remark,
		.arg = &w->reply,
	};

	return taken(gospect_confine(&how));
}

/* It reads what was kept, and not the process. */
static bool is_part_of_the_hour(uint32_t kind)
{
	return kind == SERVE_RANGE || kind == SERVE_GREW;
}

static struct error *must_check answer_for_process(struct work *w)
{
	const struct gospect_target_options how = {.size = sizeof(how),
						   .exe = w->job->limits->exe,
						   .cancel = cancel,
						   .remark = serve_reply_remark,
						   .arg = &w->reply};
	struct error *err = NULL;

	if (w->job->request.kind == SERVE_TRACE)
		err = prepare_trace(w);
	if (!err)
		err = confine(w);
	if (!err && !is_part_of_the_hour(w->job->request.kind))
		err = taken(gospect_target_open_process(w->job->request.pid, &how, &w->target));
	return err ? err : kinds[w->job->request.kind](w);
}

static void on_leash(int number)
{
	gospect_cancel_request(cancel);
}

/* The end of the leash's other side is SIGIO. The signals of a terminal or a service are the
 * keeper's: it ends the front, and that closes all leashes. */
static void obey(int leash)
{
	struct sigaction action = {.sa_handler = on_leash, .sa_flags = SA_RESTART};
	static const int others[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE};
	char byte;

	cancel = gospect_cancel_create();
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		signal(others[i], SIG_IGN);
	if (!cancel)
		_exit(1);
	sigaction(SIGIO, &action, NULL);
	fcntl(leash, F_SETOWN, getpid());
	fcntl(leash, F_SETFL, O_ASYNC | O_NONBLOCK);
	/* It may have been closed before. */
	if (!read(leash, &byte, 1))
		gospect_cancel_request(cancel);
}

/* As ps shows it: what clients asked for, apart from what the last hours need. */
static const char *name_of(uint32_t kind)
{
	return kind == SERVE_WATCH  ? "gospect-watch"
	       : kind == SERVE_LIST ? "gospect-list"
				    : "gospect-worker";
}

noreturn void serve_work(const struct serve_job *job)
{
	struct work w = {.job = job,
			 .reply = {.fd = job->data},
			 .store = job->store >= 0 ? serve_store_map(job->store) : NULL};
	struct error *err;

	prctl(PR_SET_NAME, name_of(job->request.kind));
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != job->parent)
		_exit(1);
	if (job->store >= 0)
		close(job->store);
	obey(job->leash);
	err = serve_kind_has_process(job->request.kind) ? answer_for_process(&w)
							: kinds[job->request.kind](&w);
	gospect_trace_destroy(w.trace);
	gospect_target_close(w.target);
	gospect_surgeon_end(w.surgeon);
	serve_reply_end(&w.reply, err);
	gospect_confine_end();
	_exit(0);
}
