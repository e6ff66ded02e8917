#include <errno.h>
#include <unistd.h>

#include "base/clock.h"
#include "inject/fault.h"
#include "inject/injection.h"
#include "inject/places.h"
#include "inject/standstill.h"
#include "inject/threads.h"

/* For how long we try to stop all threads at once; a vfork in between takes as long as the exec
 * behind it. */
#define STOP_NS 10000000000ull
/* So often because a thread is where what it does would be told of by half. */
#define PATIENCE 50
#define PATIENCE_PAUSE_US 2000 /* at first: twice as long after each eight times, 0.8 s in all */

static struct error *must_check write_at(const struct injection *in, uint64_t address,
					 const void *bytes, size_t n)
{
	ssize_t done = pwrite(in->memory, bytes, n, address);

	if (done == (ssize_t)n)
		return NULL;
	if (!done || errno == ESRCH)
		return error_format(ERROR_GONE, "process %d has ended", target_pid(in->t));
	return error_errno(ERROR_DENIED, errno, "cannot write to the code of process %d",
			   target_pid(in->t));
}

/* Each page of code that will change gets its private copy now, by a write of the same bytes. */
static struct error *must_check touch_code(const struct injection *in)
{
	struct error *err = NULL;

	for (unsigned int i = 0; !err && i < in->head.place_count; i++)
		if (in->head.places[i].address)
			err = write_at(in, in->head.places[i].address, in->head.places[i].bytes,
				       PLACE_JUMP_BYTES);
	return err;
}

static struct error *must_check write_jumps(struct injection *in)
{
	struct error *err = NULL;

	in->w.never_ran = false;
	for (unsigned int i = 0; !err && i < in->head.place_count; i++) {
		uint8_t jump[PLACE_JUMP_BYTES];

		if (!in->head.places[i].address)
			continue;
		if (!stub_jump(&in->head.places[i], jump))
			return error_format(ERROR_UNSUPPORTED, "the agent is out of reach");
		err = write_at(in, in->head.places[i].address, jump, sizeof(jump));
		fault_point("jump-written");
	}
	return err;
}

struct attach_step {
	struct injection *in;
	struct threads threads;
	struct standstill standstill;
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
	struct injection *in = step->in;
	bool inside = false;
	struct error *err = threads_stop_asleep(&step->threads);

	if (err)
		return err;
	err = standstill_look_asleep(in->t, &in->head, &step->threads, &step->standstill, &inside);
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
	struct injection *in = step->in;
	uint64_t since;
	bool inside;
	struct error *err = places_check(in->t, &in->head);

	if (!err)
		err = standstill_prepare(in->t, in->lay, &step->standstill);
	if (!err)
		err = stop_and_look(step, &since);
	if (step->threads.stood_ns > in->attach_ns)
		in->attach_ns = step->threads.stood_ns;
	if (err)
		return err;
	fault_point("all-stopped");
	err = standstill_look(in->t, &in->head, in->lay, &step->threads, &step->standstill,
			      &inside);
	if (!err && tries_again(step, inside))
		err = &error_fault;
	in->attached_at = clock_now();
	inject_beat(in);
	if (!err)
		err = write_jumps(in);
	since = threads_resume(&step->threads) - since;
	in->attach_ns = since > in->attach_ns ? since : in->attach_ns;
	return err;
}

/* Who was stopped has to wait for a processor anew: on a busy machine longer than at first. */
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
		struct error *err = surgery(write_jumps_stopped, step);

		if (err != &error_fault && !threads_are_borrowed(err, start))
			return err;
		error_destroy(err);
		if (threads_told_to_end())
			return &error_stopped;
		if (clock_now() > until)
			return threads_stand(pid, step->threads.stuck ?: pid);
		if (patience == step->patience)
			threads_let_run(&step->threads, until);
		else
			usleep(patience_pause(step->patience));
	}
}

struct error *injection_switch_on(struct injection *in)
{
	struct code_control control = {.enabled = 1, .slots = in->head.slots};
	struct attach_step step = {in, {.pid = target_pid(in->t)}, .patience = PATIENCE};
	struct error *err = write_at(in, in->head.control, &control, sizeof(control));

	standstill_functions(in->img, &in->head, in->layout.config.goid_late,
			     &step.standstill.functions);
	if (!err)
		err = touch_code(in);
	if (!err)
		err = try_to_write_jumps(&step);
	threads_release(&step.threads);
	standstill_release(&step.standstill);
	fault_point("attached");
	return err;
}
