#include "push/push_worker.h"

#include <errno.h>
#include <fcntl.h>
#include <gospect/confine.h>
#include <gospect/heap.h>
#include <gospect/target.h>
#include <malloc.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/descriptors.h"
#include "lib/error_api.h"
#include "lib/segments.h"
#include "push/push_profiles.h"

/*
 * With less than this, in percent, the library's own budget does not suffice for a pass over all
 * goroutines. Then each tick is a whole pass, and there are as many ticks as fit into the budget.
 */
#define SMALL_BUDGET 0.1
/* A tick takes so many seconds of CPU time, and so many for each goroutine; then it is measured. */
#define TICK_SECONDS 60e-6
#define LOOK_SECONDS 60e-9
#define USUAL_RATE 100
/* The library's limits. */
#define LEAST_RATE 0.1
#define NO_LIMIT 100
/* The parts of the budget that samples and the making of requests have; the rest is for sending. */
#define SAMPLES_SHARE 0.35
#define REQUESTS_SHARE 0.35
/* Where that is not enough, segments are longer, up to this many times. */
#define MOST_LONGER 6
/* What was used beyond the budget is saved later, as much as takes so many seconds. */
#define MOST_DEBT_SECONDS 600

struct work {
	const struct push_job *job;
	const volatile struct push_share *share;
	int to;
	struct gospect_target *target;
	struct labels labels;
	double rate;       /* of this recording */
	double tick;       /* seconds of CPU time that a tick takes */
	uint64_t slept_ns; /* CPU time of this thread when the last segment was done */
	double debt;       /* seconds of CPU time beyond the budget */
	bool was_small;    /* of this recording: is_small() */
	uint32_t taken;    /* segments */
	bool no_heap;      /* the program keeps no heap profile: it was remarked */
	bool told;         /* that segments are longer */
	bool again;        /* the recording shall begin anew, as the budget is of another kind */
};

/* ---- frames ---- */

static bool put_all(int fd, const void *bytes, size_t size)
{
	const char *from = bytes;

	while (size) {
		ssize_t n = write(fd, from, size);

		if (n < 0 && errno != EINTR)
			return false;
		if (n > 0) {
			from += n;
			size -= n;
		}
	}
	return true;
}

static bool put_frame(int fd, enum push_frame kind, const void *bytes, size_t size)
{
	const struct push_frame_head head = {kind, size};

	return put_all(fd, &head, sizeof(head)) && put_all(fd, bytes, size);
}

static void put_remark(void *arg, const char *line)
{
	const struct work *w = arg;

	put_frame(w->to, PUSH_FRAME_REMARK, line, strnlen(line, PUSH_MOST_FRAME));
}

static void put_error(const struct work *w, const struct error *err)
{
	char bytes[2048];
	uint32_t code = err->code;
	size_t length = strnlen(err->message, sizeof(bytes) - sizeof(code));

	memcpy(bytes, &code, sizeof(code));
	memcpy(bytes + sizeof(code), err->message, length);
	put_frame(w->to, PUSH_FRAME_ERROR, bytes, sizeof(code) + length);
}

static bool put_body(const struct work *w, const struct strbuf *body)
{
	bool put = true;

	for (size_t at = 0; put && at < body->length; at += PUSH_MOST_FRAME) {
		size_t left = body->length - at;

		put = put_frame(w->to, PUSH_FRAME_BODY, body->data + at,
				left < PUSH_MOST_FRAME ? left : PUSH_MOST_FRAME);
	}
	return put && put_frame(w->to, PUSH_FRAME_END, NULL, 0);
}

/* ---- a segment ---- */

static void drop_profile(struct gospect_profile **p)
{
	gospect_profile_destroy(*p);
}

/* Some programs keep no heap profile. */
static struct error *must_check add_heap(struct work *w, struct push_segment *s)
{
	const struct gospect_heap_options how = {.size = sizeof(how), .kind = GOSPECT_HEAP};
	_cleanup_(drop_profile) struct gospect_profile *heap = NULL;
	struct error *err;

	if (w->no_heap)
		return NULL;
	err = error_in(gospect_heap_profile(w->target, &how, &heap));
	if (!err)
		return push_segment_add(s, PUSH_MEMORY, heap);
	if (err->code == ERROR_FAILED) {
		put_remark(w, err->message);
		w->no_heap = true;
	}
	error_destroy(err);
	return NULL;
}

static struct error *must_check make_body(struct work *w, struct gospect_profile *wall,
					  struct gospect_profile *goroutines, struct strbuf *ret)
{
	_cleanup_push_segment_ struct push_segment s = {.labels = &w->labels};
	struct error *err = push_segment_add(&s, PUSH_WALL, wall);

	if (!err)
		err = push_segment_add(&s, PUSH_GOROUTINES, goroutines);
	if (!err)
		err = add_heap(w, &s);
	return err || !s.count ? err : w->job->destination->encode(&s, ret);
}

/* The budget of this process alone, in percent. */
static double share_of(const struct work *w)
{
	uint32_t processes = w->share->processes;

	return w->job->budget / (processes ? processes : 1);
}

/* Of the samples alone, in percent. */
static double budget_of(const struct work *w)
{
	return fmin(share_of(w) * SAMPLES_SHARE, NO_LIMIT);
}

static bool is_small(const struct work *w)
{
	return budget_of(w) < SMALL_BUDGET;
}

static double rate_of(const struct work *w)
{
	return is_small(w) ? fmax(LEAST_RATE, fmin(USUAL_RATE, budget_of(w) / 100 / w->tick))
			   : USUAL_RATE;
}

/* The ticks of a segment, which took so much CPU time. */
static void learn_cost(struct work *w, uint64_t cpu_ns, double seconds)
{
	double ticks = fmax(w->rate * seconds, 1);

	w->tick = fmax(cpu_ns / 1e9 / ticks, TICK_SECONDS / 10);
}

/* What all work of the last segment has cost, against what it may. The measures above are of one
 * segment, and the next may cost more: so the sum is what counts. */
static void settle_debt(struct work *w, uint64_t cpu_ns, double seconds)
{
	double a_second = share_of(w) / 100 * (SAMPLES_SHARE + REQUESTS_SHARE);
	double debt = w->debt + cpu_ns / 1e9 - a_second * seconds;

	w->debt = fmin(fmax(debt, 0), a_second * MOST_DEBT_SECONDS);
}

/* `cpu_ns`: what making the last segment took. */
static void pace(struct work *w, struct segments *segments, uint64_t cpu_ns)
{
	double share = share_of(w), seconds = cpu_ns / 1e9;
	double needed = (seconds + w->debt) * 100 / (share * REQUESTS_SHARE);
	double longest = w->job->interval * MOST_LONGER;

	/* The first segment of a recording reads tables and all stacks for the first time. */
	if (w->taken++ == 0)
		return;
	segments->interval = fmin(fmax(w->job->interval, needed), longest);
	if (segments->interval > 1.5 * w->job->interval && !w->told) {
		put_remark(
			w,
			"its segments are longer than --interval, because a segment takes more CPU time than --budget allows; raise --budget");
		w->told = true;
	}
	segments->budget = is_small(w) ? 0 : budget_of(w);
	w->again = segments->is_full || is_small(w) != w->was_small;
	if (is_small(w))
		segments->rate = w->rate = rate_of(w);
}

static int take(struct segments *segments, struct gospect_profile *wall,
		struct gospect_profile *goroutines)
{
	struct work *w = segments->arg;
	_cleanup_strbuf_ struct strbuf body = STRBUF_INIT;
	const struct gospect_profile_info *info = gospect_profile_info(wall);
	uint64_t began = clock_cpu();
	struct error *err = make_body(w, wall, goroutines, &body);
	bool put = !err && (!body.length || put_body(w, &body));

	if (err) {
		put_remark(w, err->message);
		error_destroy(err);
	}
	strbuf_release(&body);
	malloc_trim(0);
	if (w->taken && is_small(w))
		learn_cost(w, began - w->slept_ns, info->duration_ns / 1e9);
	if (w->taken)
		settle_debt(w, clock_cpu() - w->slept_ns, info->duration_ns / 1e9);
	pace(w, segments, clock_cpu() - began);
	w->slept_ns = clock_cpu();
	return (!put && !err) || w->again;
}

/* ---- the process ---- */

/* A server that has no links would take each id for a series of its own. */
static uint32_t names_of(const struct push_job *job)
{
	if (job->no_names)
		return 0;
	return GOSPECT_RECORD_NAMES | (job->destination->has_links ? GOSPECT_RECORD_TRACE_IDS : 0);
}

static struct error *must_check record(struct work *w)
{
	struct segments segments = {.interval = w->job->interval, .take = take, .arg = w};
	size_t goroutines = 0;
	struct error *err = error_in(gospect_target_count_goroutines(w->target, &goroutines));

	if (err)
		return err;
	w->tick = TICK_SECONDS + goroutines * LOOK_SECONDS;
	do {
		const struct gospect_record_options how = {
			.size = sizeof(how),
			.budget = is_small(w) ? NO_LIMIT : budget_of(w),
			.rate = w->rate = rate_of(w),
			.flags = names_of(w->job),
		};

		w->again = false;
		w->was_small = is_small(w);
		w->taken = 0;
		err = segments_record(w->target, &how, &segments);
	} while (!err && w->again &&
		 !(w->job->cancel && gospect_cancel_is_requested(w->job->cancel)));
	return err;
}

static struct error *must_check confine(struct work *w)
{
	const struct gospect_confine_options how = {.size = sizeof(how),
						    .pid = w->job->target,
						    .flags = GOSPECT_CONFINE_SAMPLES,
						    .memory = w->job->memory,
						    .remark = put_remark,
						    .arg = w};

	return error_in(gospect_confine(&how));
}

static struct error *must_check open_target(struct work *w, int environment)
{
	const struct gospect_target_options how = {.size = sizeof(how),
						   .cancel = w->job->cancel,
						   .remark = put_remark,
						   .arg = w};
	struct error *err = error_in(gospect_target_open_process(w->job->target, &how, &w->target));

	if (err)
		return err;
	put_frame(w->to, PUSH_FRAME_BEGUN, NULL, 0);
	return process_labels_read(environment, w->job->target, w->job->program,
				   gospect_target_info(w->target)->go_version, w->job->labels,
				   &w->labels);
}

static struct error *must_check work(struct work *w)
{
	_cleanup_close_ int environment = process_environment_open(w->job->target);
	struct error *err = confine(w);

	if (!err)
		err = open_target(w, environment);
	if (!err)
		err = record(w);
	return err;
}

/* Keeps the pipe and the memory file, as 3 and 4. */
static void keep_descriptors(struct work *w, int pipe, int share)
{
	int high_pipe = fcntl(pipe, F_DUPFD_CLOEXEC, 64), high = fcntl(share, F_DUPFD_CLOEXEC, 64);

	descriptors_close(3, high_pipe - 1);
	w->to = dup3(high_pipe, 3, O_CLOEXEC);
	w->share = mmap(NULL, sizeof(*w->share), PROT_READ, MAP_SHARED, high, 0);
	descriptors_close(4, ~0u);
}

static _Noreturn void run(const struct push_job *job, int pipe, pid_t parent)
{
	struct work w = {.job = job};
	struct error *err;

	prctl(PR_SET_NAME, "gospect-worker");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	keep_descriptors(&w, pipe, job->share);
	if (w.to < 0 || w.share == MAP_FAILED)
		_exit(1);
	err = work(&w);
	if (err)
		put_error(&w, err);
	else
		put_frame(w.to, PUSH_FRAME_DONE, NULL, 0);
	gospect_confine_end();
	_exit(0);
}

struct error *push_worker_start(const struct push_job *job, struct push_worker *ret)
{
	pid_t parent = getpid();
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return error_errno(ERROR_FAILED, errno, "cannot create a pipe");
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	ret->pid = fork();
	if (!ret->pid)
		run(job, ends[1], parent);
	close(ends[1]);
	ret->pipe = ends[0];
	if (ret->pid > 0)
		return NULL;
	close(ret->pipe);
	*ret = (struct push_worker){.pipe = -1};
	return error_errno(ERROR_FAILED, errno, "cannot start a process");
}

void push_worker_end(struct push_worker *w)
{
	if (w->pipe >= 0)
		close(w->pipe);
	if (w->pid > 0) {
		kill(w->pid, SIGKILL);
		while (waitpid(w->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	*w = (struct push_worker){.pipe = -1};
}
