#include "inject/surgeon.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "inject/guardian.h"
#include "inject/guardian_line.h"
#include "inject/operation.h"
#include "inject/threads.h"
#include "target/proc_status.h"

/* While threads of the target stand, they wait for us. */
#define PRIORITY (-10)
/* The end of gospect, in the surgeon's own process. */
#define ORPHAN_SIGNAL (SIGRTMIN + 5)

#define DYING_TRIES 5
/* When its first thread is dead the others may take long for it, on a busy machine. */
#define MOST_DYING_TRIES 500

static bool may_be_dying(pid_t pid, int tries)
{
	return tries < DYING_TRIES || (tries < MOST_DYING_TRIES && !process_has_first_thread(pid));
}

struct error *surgeon_explain(struct target *t, struct error *err)
{
	for (int i = 0; may_be_dying(target_pid(t), i); i++) {
		struct error *gone = target_check(t);

		if (gone || process_is_dead(target_pid(t))) {
			error_destroy(err);
			return gone ? gone
				    : error_format(ERROR_GONE, "process %d has exited",
						   target_pid(t));
		}
		if (err->code != ERROR_FAILED && err->code != ERROR_DENIED)
			break;
		usleep(2000);
	}
	return err;
}

/* ---- its life ---- */

/* When memory runs out the kernel is to kill us, not the target: the agent does no harm without us.
 */
static void offer_ourselves_to_be_killed(void)
{
	int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (file < 0)
		return;
	(void)!write(file, "1000", 4);
	close(file);
}

static void *make_shared(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

struct error *surgeon_create(pid_t pid, const volatile sig_atomic_t *stop, struct surgeon **ret)
{
	struct surgeon *s = calloc(1, sizeof(*s));

	if (!s)
		return &error_no_memory;
	s->memory = -1;
	s->pid = pid;
	s->start = process_start(pid);
	s->is_guarded = true;
	s->watched = stop;
	s->stop = make_shared(sizeof(*s->stop));
	s->originals = make_shared(sizeof(*s->originals));
	s->fork = make_shared(sizeof(*s->fork));
	if (!s->stop || !s->originals || !s->fork) {
		surgeon_destroy(s);
		return &error_no_memory;
	}
	*ret = s;
	return NULL;
}

struct error *surgeon_call(struct surgeon_line line, struct surgeon **ret)
{
	struct surgeon *s = calloc(1, sizeof(*s));

	if (!s)
		return &error_no_memory;
	s->memory = -1;
	s->line = line;
	*ret = s;
	return NULL;
}

static void let_go(struct surgeon *s)
{
	error_destroy(snapshot_end(s));
	if (!operation_leave(s) || s->touched)
		guardian_take_over();
	else
		guardian_dismiss();
	if (s->shared)
		munmap(s->shared, s->plan->shared_bytes);
	cleanup_close(&s->memory);
	s->memory = -1;
	free(take_ptr(s->plan));
	free(take_ptr(s->sent));
	s->sent_size = 0;
	target_close(take_ptr(s->t));
	s->shared = NULL;
	s->state = SURGEON_OUT;
}

static struct error *must_check leave(struct surgeon *s);

void surgeon_destroy(struct surgeon *s)
{
	if (!s)
		return;
	if (!s->line.ask)
		error_destroy(leave(s));
	if (s->stop)
		munmap((void *)s->stop, sizeof(*s->stop));
	if (s->originals)
		munmap(s->originals, sizeof(*s->originals));
	if (s->fork)
		munmap((void *)s->fork, sizeof(*s->fork));
	free(s);
}

/* ---- operations ---- */

static struct error *must_check out_of_turn(void)
{
	return error_format(
		ERROR_FAILED,
		"internal error: unexpected request to the process that patches the target");
}

/* The process that we were made for, and not another that has got its number since. */
static struct error *must_check open_target(struct surgeon *s)
{
	struct error *err = target_open_process(s->pid, &s->t);

	if (err || (s->start && process_start(s->pid) == s->start))
		return err;
	return error_format(ERROR_GONE, "process %d has exited", s->pid);
}

static struct error *must_check take_survey(struct surgeon *s, const struct survey *survey)
{
	struct error *err;

	s->survey = *survey;
	err = survey_check(s->t, &s->survey);
	s->originals->count = 0;
	for (size_t i = 0; !err && i < s->survey.original_count; i++)
		if (!originals_add(s->originals, s->survey.originals[i].address,
				   s->survey.originals[i].bytes))
			err = &error_no_memory;
	return err;
}

/* Also removes the page that was kept: no thread is in it any more, and a new one follows. */
static struct error *must_check take_out_what_is_left(struct surgeon *s)
{
	struct error *err;

	s->w.keep_code_page = s->cleans;
	err = detach(&s->w);
	s->w.keep_code_page = true;
	s->touched = err != NULL;
	return err;
}

static struct error *must_check enter(struct surgeon *s, const struct surgeon_request *r)
{
	struct error *err;

	if (s->state != SURGEON_OUT)
		return out_of_turn();
	s->cleans = r->operation == SURGEON_CLEAN;
	err = open_target(s);
	if (!err)
		err = take_survey(s, r->survey);
	if (!err)
		err = operation_check(s);
	if (!err && s->is_guarded)
		err = guardian_start(s);
	s->touched = !err;
	if (!err)
		err = operation_enter(s);
	if (!err)
		err = take_out_what_is_left(s);
	if (err)
		let_go(s);
	else
		s->state = SURGEON_IN;
	return err;
}

static struct error *must_check expect(struct surgeon *s, bool snapshot)
{
	if (s->state != SURGEON_OUT)
		return out_of_turn();
	if (snapshot)
		snapshot_expect(s->pid, &s->answer.expected);
	else
		pause_expect(s->pid, &s->answer.pause);
	return NULL;
}

/* Notes the probe sites that the guardian may restore. */
static struct error *must_check note_sites(struct surgeon *s)
{
	const struct code_head *h = &s->plan->head;

	for (size_t i = 0; i < h->site_count; i++)
		if (h->sites[i].address &&
		    !originals_add(s->originals, h->sites[i].address, h->sites[i].bytes))
			return &error_no_memory;
	return NULL;
}

static struct error *must_check map(struct surgeon *s, struct surgeon_request *r)
{
	_cleanup_maps_ struct target_maps maps = {0};
	struct error *err;

	if (s->state != SURGEON_IN || s->cleans || s->snapshot || !r->plan ||
	    r->plan_size < sizeof(*s->plan) || r->plan_size > PLAN_MOST_BYTES)
		return out_of_turn();
	s->plan = malloc(r->plan_size);
	if (!s->plan)
		return &error_no_memory;
	memcpy(s->plan, r->plan, r->plan_size);
	err = target_maps(s->t, &maps);
	if (!err)
		err = plan_check(s->plan, r->plan_size, &maps);
	if (!err)
		err = note_sites(s);
	if (err) {
		free(take_ptr(s->plan));
		return err;
	}
	s->state = SURGEON_MAPPED;
	s->touched = s->w.never_ran = true;
	return operation_map(s, &r->shared);
}

static struct error *must_check take_snapshot(struct surgeon *s, struct surgeon_request *r)
{
	if (s->state != SURGEON_IN || s->cleans || s->snapshot || !r->limits)
		return out_of_turn();
	return snapshot_begin(s, r->limits, &r->shared, &r->threads);
}

static struct error *must_check switch_on(struct surgeon *s)
{
	if (s->state != SURGEON_MAPPED || !s->shared)
		return out_of_turn();
	s->state = SURGEON_ON;
	return operation_switch_on(s);
}

static struct error *must_check switch_again(struct surgeon *s)
{
	const uint32_t enabled = 1;
	uint64_t at;

	if (s->state != SURGEON_ON)
		return out_of_turn();
	at = s->plan->head.control + offsetof(struct code_control, enabled);
	if (pwrite(s->memory, &enabled, sizeof(enabled), at) != sizeof(enabled))
		return error_errno(ERROR_FAILED, errno, "cannot enable the agent again");
	return NULL;
}

/* Somebody else may take the agent out from now on. */
static struct error *must_check hand_over(struct surgeon *s, struct error *err)
{
	struct error *wrapped;
	pid_t pid;

	claim_end(&s->claim);
	pid = guardian_take_over();
	wrapped = error_format(err->code, "%s; gospect-guard, process %d, keeps trying",
			       err->message, pid);
	error_destroy(err);
	return wrapped;
}

static struct error *must_check take_out(struct surgeon *s)
{
	struct error *err = target_check(s->t);

	err = err ? err : detach(&s->w);
	err = err ? surgeon_explain(s->t, err) : NULL;
	s->touched = err && err->code != ERROR_GONE;
	s->answer.detach_ns = s->w.stop_ns;
	if (s->touched)
		return hand_over(s, err);
	error_destroy(err);
	return NULL;
}

static struct error *must_check leave(struct surgeon *s)
{
	struct error *err = s->state >= SURGEON_MAPPED ? take_out(s) : NULL;

	if (s->state != SURGEON_OUT)
		let_go(s);
	return err;
}

static struct error *must_check perform(struct surgeon *s, struct surgeon_request *r)
{
	switch (r->operation) {
	case SURGEON_EXPECT:
	case SURGEON_EXPECT_SNAPSHOT:
		return expect(s, r->operation == SURGEON_EXPECT_SNAPSHOT);
	case SURGEON_ENTER:
	case SURGEON_CLEAN:
		return enter(s, r);
	case SURGEON_MAP:
		return map(s, r);
	case SURGEON_SWITCH_ON:
		return switch_on(s);
	case SURGEON_SNAPSHOT:
		return take_snapshot(s, r);
	case SURGEON_END_SNAPSHOT:
		return snapshot_end(s);
	case SURGEON_SWITCH_AGAIN:
		return switch_again(s);
	case SURGEON_LEAVE:
		return leave(s);
	default:
		return out_of_turn();
	}
}

static struct error *must_check operate(struct surgeon *s, struct surgeon_request *r)
{
	struct error *err;

	r->shared = r->threads = -1;
	threads_end = r->operation >= SURGEON_SWITCH_AGAIN ? NULL
		      : s->watched                         ? s->watched
							   : s->stop;
	err = perform(s, r);
	threads_end = NULL;
	r->answer = s->answer;
	return err;
}

/* ---- in another process ---- */

/* A request: a survey, or a part of the plan; the parts are sent in sequence. */
struct asked {
	uint32_t operation;
	uint32_t offset; /* of the part */
};

enum {
	SEND_PART = SURGEON_OPERATIONS,
	PART_BYTES = 4096,
	MOST_BYTES = sizeof(struct survey) > PART_BYTES ? sizeof(struct survey) : PART_BYTES,
};
_Static_assert(sizeof(struct asked) + MOST_BYTES <= DOOR_MAX_BYTES, "it fits into a request");

static struct error *must_check send(const struct surgeon_line *line, uint32_t operation,
				     size_t offset, const void *bytes, size_t size,
				     struct door_call *ret)
{
	const struct asked asked = {operation, offset};

	*ret = (struct door_call){.size = sizeof(asked) + size};
	memcpy(ret->bytes, &asked, sizeof(asked));
	if (size)
		memcpy(ret->bytes + sizeof(asked), bytes, size);
	return line->ask(line->arg, ret);
}

static struct error *must_check send_plan(const struct surgeon_line *line,
					  const struct surgeon_request *r)
{
	struct error *err = NULL;
	struct door_call call;
	size_t size;

	for (size_t at = 0; !err && at < r->plan_size; at += size) {
		size = r->plan_size - at < PART_BYTES ? r->plan_size - at : PART_BYTES;
		err = send(line, SEND_PART, at, (const uint8_t *)r->plan + at, size, &call);
		if (!err)
			door_call_drop(&call);
	}
	return err;
}

/* In this order: the registers, and the memory if there is one. */
static void take_descriptors(struct surgeon_request *r, struct door_call *call)
{
	size_t i = 0;

	if (r->operation == SURGEON_SNAPSHOT && i < call->fd_count)
		r->threads = call->fds[i++];
	if (i < call->fd_count)
		r->shared = call->fds[i++];
	while (i < call->fd_count)
		close(call->fds[i++]);
}

static void give_descriptors(struct surgeon_request *r, struct error *err, struct door_call *call)
{
	int fds[] = {r->threads, r->shared};

	for (int i = 0; i < 2; i++) {
		if (fds[i] >= 0 && err)
			close(fds[i]);
		else if (fds[i] >= 0)
			call->fds[call->fd_count++] = fds[i];
	}
}

static struct error *must_check ask_over(const struct surgeon_line *line, struct surgeon_request *r)
{
	struct error *err = r->operation == SURGEON_MAP ? send_plan(line, r) : NULL;
	struct door_call call;

	r->shared = r->threads = -1;
	if (!err && r->limits)
		err = send(line, r->operation, 0, r->limits, sizeof(*r->limits), &call);
	else if (!err)
		err = send(line, r->operation, 0, r->survey, r->survey ? sizeof(*r->survey) : 0,
			   &call);
	if (err)
		return err;
	if (call.size == sizeof(r->answer))
		memcpy(&r->answer, call.bytes, sizeof(r->answer));
	take_descriptors(r, &call);
	return NULL;
}

struct error *surgeon_ask(struct surgeon *s, struct surgeon_request *r)
{
	return s->line.ask ? ask_over(&s->line, r) : operate(s, r);
}

static struct surgeon *orphan;

static void on_orphaned(int number)
{
	if (getppid() == orphan->named)
		return;
	*orphan->stop = 1;
	if (threads_end)
		threads_end = orphan->stop;
}

/* In its own process: it works for another process, which may end meanwhile. */
static void begin(struct surgeon *s)
{
	struct sigaction end = {.sa_handler = on_orphaned};

	if (s->named)
		return;
	s->named = getppid();
	orphan = s;
	offer_ourselves_to_be_killed();
	sigaction(ORPHAN_SIGNAL, &end, NULL);
	prctl(PR_SET_PDEATHSIG, ORPHAN_SIGNAL);
	setpriority(PRIO_PROCESS, 0, PRIORITY); /* where it is permitted */
}

/* Appends a part; the plan is checked when all parts are there. */
static struct error *must_check take_part(struct surgeon *s, size_t offset, const uint8_t *bytes,
					  size_t size)
{
	if (s->state != SURGEON_IN || offset != s->sent_size || size > PLAN_MOST_BYTES - offset)
		return out_of_turn();
	if (!s->sent)
		s->sent = malloc(PLAN_MOST_BYTES);
	if (!s->sent)
		return &error_no_memory;
	memcpy(s->sent + offset, bytes, size);
	s->sent_size += size;
	return NULL;
}

static size_t bytes_of(uint32_t operation)
{
	if (operation == SURGEON_SNAPSHOT)
		return sizeof(struct snapshot_limits);
	return operation == SURGEON_ENTER || operation == SURGEON_CLEAN ? sizeof(struct survey) : 0;
}

static struct error *must_check take_request(struct surgeon *s, const struct door_call *call,
					     struct surgeon_request *r)
{
	size_t size = call->size - sizeof(struct asked);
	struct snapshot_limits limits;
	struct survey survey;
	struct asked asked;

	if (call->size < sizeof(asked) || call->fd_count)
		return out_of_turn();
	memcpy(&asked, call->bytes, sizeof(asked));
	if (asked.operation == SEND_PART)
		return take_part(s, asked.offset, call->bytes + sizeof(asked), size);
	if (size != bytes_of(asked.operation))
		return out_of_turn();
	*r = (struct surgeon_request){.operation = asked.operation, .survey = &survey};
	if (asked.operation == SURGEON_SNAPSHOT)
		r->limits = memcpy(&limits, call->bytes + sizeof(asked), size);
	else
		memcpy(&survey, call->bytes + sizeof(asked), size);
	if (asked.operation == SURGEON_MAP) {
		r->plan = (const struct plan *)s->sent;
		r->plan_size = s->sent_size;
	}
	return operate(s, r);
}

struct error *surgeon_serve(void *arg, struct door_call *call)
{
	struct surgeon_request r = {.shared = -1, .threads = -1};
	struct surgeon *s = arg;
	struct error *err;

	begin(s);
	err = take_request(s, call, &r);
	door_call_drop(call);
	give_descriptors(&r, err, call);
	call->size = sizeof(s->answer);
	memcpy(call->bytes, &s->answer, sizeof(s->answer));
	return err;
}
