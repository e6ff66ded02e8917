#include <unistd.h>

#include "base/clock.h"
#include "inject/fault.h"
#include "inject/operation.h"
#include "inject/presence.h"
#include "inject/quiescence.h"
#include "inject/sites.h"
#include "inject/threads.h"

/* For how long we try to stop all threads at once; a vfork in between takes as long as the exec
 * behind it. */
#define STOP_NS 10000000000ull
/* The number of tries while a thread is at a place where its event would be recorded by half. */
#define PATIENCE 50
#define PATIENCE_PAUSE_US 2000 /* at first: twice as long after each eight times, 0.8 s in all */

/* The agent's switch. Where the kernel permits it, its page gets its copy ahead, too. */
static struct error *must_check write_control(const struct surgeon *s, struct code_memory code)
{
	struct code_control control = {.enabled = 1, .slots = s->plan->head.slots};

	return code_memory_write(code, s->plan->head.control, &control, sizeof(control));
}

/* Each page of code that will change gets its private copy now, by a write of the same bytes, where
 * the kernel permits one while the threads run. */
static struct error *must_check touch_code(const struct surgeon *s)
{
	const struct code_memory running = {target_pid(s->t), s->memory, 0};
	struct error *err = write_control(s, running);

	for (unsigned int i = 0; !err && i < s->plan->head.site_count; i++)
		if (s->plan->head.sites[i].address)
			err = code_memory_write(running, s->plan->head.sites[i].address,
						s->plan->head.sites[i].bytes, SITE_JUMP_BYTES);
	return err == &error_fault ? NULL : err;
}

static struct error *must_check write_jumps(struct surgeon *s, struct code_memory code)
{
	struct error *err = write_control(s, code);

	s->w.never_ran = false;
	for (unsigned int i = 0; !err && i < s->plan->head.site_count; i++) {
		uint8_t jump[SITE_JUMP_BYTES];

		if (!s->plan->head.sites[i].address)
			continue;
		if (!code_jump(&s->plan->head.sites[i], jump))
			return error_format(ERROR_UNSUPPORTED,
					    "internal error: the agent is out of range of a jump");
		err = code_memory_write(code, s->plan->head.sites[i].address, jump, sizeof(jump));
		fault_point("jump-written");
	}
	return err;
}

struct attach_step {
	struct surgeon *surgeon;
	struct threads threads;
	struct quiescence quiescence;
	unsigned int patience; /* how often we may still let go of them to try again */
};

/* Where one is inside the threads are let go, and stopped again later, but not for ever. */
static bool tries_again(struct attach_step *step, bool inside)
{
	if (!inside || !step->patience)
		return false;
	step->patience--;
	return true;
}

/* Most threads of a program with many sleep, and looking at them takes longest: it comes before the
 * others are stopped. */
static struct error *must_check stop_and_look(struct attach_step *step, uint64_t *ret_since)
{
	struct surgeon *s = step->surgeon;
	bool inside = false;
	struct error *err = threads_stop_asleep(&step->threads);

	if (err)
		return err;
	err = quiescence_check_asleep(s->t, &s->plan->head, &step->threads, &step->quiescence,
				      &inside);
	if (!err && tries_again(step, inside))
		err = &error_fault;
	if (err) {
		threads_resume(&step->threads);
		return err;
	}
	return threads_stop_others(&step->threads, ret_since);
}

static struct error *must_check write_jumps_stopped(void *arg)
{
	struct attach_step *step = arg;
	struct surgeon *s = step->surgeon;
	uint64_t since;
	bool inside;
	struct error *err = sites_check(s->t, &s->plan->head);

	if (!err)
		err = quiescence_prepare(s->t, &s->survey.words, &step->quiescence);
	if (!err)
		err = stop_and_look(step, &since);
	if (step->threads.stood_ns > s->answer.attach_ns)
		s->answer.attach_ns = step->threads.stood_ns;
	if (err)
		return err;
	fault_point("all-stopped");
	err = quiescence_check(s->t, &s->plan->head, &s->survey.words, &step->threads,
			       &step->quiescence, &inside);
	if (!err && tries_again(step, inside))
		err = &error_fault;
	s->answer.attached_at = clock_now();
	presence_say(s->shared);
	if (!err)
		err = write_jumps(s, threads_code(&step->threads, s->memory));
	since = threads_resume(&step->threads) - since;
	s->answer.attach_ns = since > s->answer.attach_ns ? since : s->answer.attach_ns;
	return err;
}

/* A stopped thread must get a CPU again, which takes longer on a busy machine than the first
 * stop. */
static unsigned int patience_pause(unsigned int patience)
{
	unsigned int doubled = (PATIENCE - patience) / 8;

	return PATIENCE_PAUSE_US << (doubled < 4 ? doubled : 4);
}

static struct error *must_check try_to_write_jumps(struct attach_step *step)
{
	uint64_t start = clock_now(), until;
	pid_t pid = step->threads.pid;

	until = clock_now() + STOP_NS;
	for (;;) {
		unsigned int patience = step->patience;
		struct error *err = run_on_tracer_thread(write_jumps_stopped, step);

		if (err != &error_fault && !threads_are_borrowed(err, start))
			return err;
		error_destroy(err);
		if (threads_must_end())
			return &error_stopped;
		if (clock_now() > until)
			return threads_stand(pid, step->threads.stuck ?: pid);
		if (patience == step->patience)
			threads_let_run(&step->threads, until);
		else
			usleep(patience_pause(step->patience));
	}
}

struct error *operation_switch_on(struct surgeon *s)
{
	struct attach_step step = {s, {.pid = target_pid(s->t)}, .patience = PATIENCE};
	struct error *err = touch_code(s);

	step.quiescence.functions = s->plan->functions;
	if (!err)
		err = try_to_write_jumps(&step);
	threads_release(&step.threads);
	quiescence_release(&step.quiescence);
	fault_point("attached");
	return err;
}
