#include "gotrace/order.h"

#include "gotrace/event.h"

/* A state and a sequence number in one word of a map. */
enum { STATE_BITS = 4, STATE_MASK = (1 << STATE_BITS) - 1 };
/* State of a P: its goroutine left while it was in a system call. */
enum { PROC_ABANDONED = 4 };

static uint64_t find(const struct map *map, uint64_t key)
{
	const uint64_t *value = map_find(map, key);

	return value ? *value : 0;
}

static void set(struct order *o, struct map *map, uint64_t key, uint64_t value)
{
	uint64_t *place;

	if (key == MAP_NO_KEY)
		return;
	place = map_at(map, key);
	if (place)
		*place = value;
	else
		o->failed = true;
}

static bool follows(const struct map *map, uint64_t key, unsigned int state, uint64_t seq)
{
	uint64_t now = find(map, key);

	return (now & STATE_MASK) == state && (now >> STATE_BITS) + 1 == seq;
}

static bool in_syscall(const struct order *o, uint64_t m)
{
	uint64_t p = find(&o->held, m);
	uint64_t state = p ? find(&o->processors, p - 1) & STATE_MASK : 0;

	return state == PROC_IN_SYSCALL || state == PROC_ABANDONED;
}

bool order_permits(const struct order *o, const struct trace_step *step)
{
	switch (step->op) {
	case OP_PROC_START:
		return follows(&o->processors, step->arg[0], PROC_IDLE, step->arg[1]);
	case OP_PROC_STEAL:
		return follows(&o->processors, step->arg[0], PROC_IN_SYSCALL, step->arg[1]) ||
		       follows(&o->processors, step->arg[0], PROC_ABANDONED, step->arg[1]);
	case OP_GO_START:
		return follows(&o->goroutines, step->arg[0], TRACE_RUNNABLE, step->arg[1]);
	case OP_GO_UNBLOCK:
	case OP_GO_SWITCH:
	case OP_GO_SWITCH_DESTROY:
		return follows(&o->goroutines, step->arg[0], TRACE_WAITING, step->arg[1]);
	case OP_GO_SYSCALL_END_BLOCKED:
		return !in_syscall(o, step->m);
	case OP_GC_ACTIVE:
	case OP_GC_BEGIN:
	case OP_GC_END:
		return !o->gc_known || step->arg[0] == o->gc_seq + 1;
	default:
		return true;
	}
}

/* Keeps the sequence number, or increments it. */
static void change(struct order *o, struct map *map, uint64_t key, unsigned int state, bool next)
{
	uint64_t now = find(map, key);

	set(o, map, key, ((now >> STATE_BITS) + next) << STATE_BITS | state);
}

static void hold(struct order *o, uint64_t m, uint64_t p)
{
	set(o, &o->holders, p, m);
	set(o, &o->held, m, p + 1);
}

static void let_go(struct order *o, uint64_t p)
{
	uint64_t m = find(&o->holders, p);

	if (find(&o->held, m) == p + 1)
		map_remove(&o->held, m);
	map_remove(&o->holders, p);
}

static void take_processor(struct order *o, const struct trace_step *step)
{
	uint64_t p = step->arg[0];

	switch (step->op) {
	case OP_PROC_STATUS:
		set(o, &o->processors, p, step->arg[1] & STATE_MASK);
		if (step->arg[1] == PROC_RUNNING || step->arg[1] == PROC_IN_SYSCALL)
			hold(o, step->m, p);
		break;
	case OP_PROC_START:
		change(o, &o->processors, p, PROC_RUNNING, true);
		hold(o, step->m, p);
		break;
	case OP_PROC_STEAL:
		change(o, &o->processors, p, PROC_IDLE, true);
		let_go(o, p);
		break;
	default:
		if (step->p != TRACE_NO_P) {
			change(o, &o->processors, step->p, PROC_IDLE, false);
			let_go(o, step->p);
		}
	}
}

static void run(struct order *o, uint64_t m, uint64_t g)
{
	set(o, &o->running, m, g);
}

static void leave(struct order *o, const struct trace_step *step, unsigned int state)
{
	if (step->g && state)
		change(o, &o->goroutines, step->g, state, false);
	else if (step->g)
		map_remove(&o->goroutines, step->g);
	map_remove(&o->running, step->m);
}

static void enter_syscall(struct order *o, const struct trace_step *step)
{
	change(o, &o->goroutines, step->g, TRACE_IN_SYSCALL, false);
	if (step->p != TRACE_NO_P)
		change(o, &o->processors, step->p, PROC_IN_SYSCALL, true);
}

static void leave_syscall(struct order *o, const struct trace_step *step)
{
	change(o, &o->goroutines, step->g, TRACE_RUNNING, false);
	if (step->p != TRACE_NO_P)
		change(o, &o->processors, step->p, PROC_RUNNING, false);
}

static void emit_status(struct order *o, const struct trace_step *step)
{
	uint64_t g = step->arg[0];

	set(o, &o->goroutines, g, step->arg[2] & STATE_MASK);
	if (step->arg[2] == TRACE_RUNNING)
		run(o, step->m, g);
	else if (step->arg[2] == TRACE_IN_SYSCALL && step->arg[1] != TRACE_NO_M)
		run(o, step->arg[1], g);
}

static void take_switch(struct order *o, const struct trace_step *step)
{
	leave(o, step, step->op == OP_GO_SWITCH ? TRACE_WAITING : 0);
	change(o, &o->goroutines, step->arg[0], TRACE_RUNNING, true);
	run(o, step->m, step->arg[0]);
}

static void take_goroutine(struct order *o, const struct trace_step *step)
{
	uint64_t g = step->arg[0];

	switch (step->op) {
	case OP_GO_CREATE:
	case OP_GO_CREATE_BLOCKED:
		set(o, &o->goroutines, g,
		    step->op == OP_GO_CREATE ? TRACE_RUNNABLE : TRACE_WAITING);
		break;
	case OP_GO_CREATE_SYSCALL:
		set(o, &o->goroutines, g, TRACE_IN_SYSCALL);
		run(o, step->m, g);
		break;
	case OP_GO_START:
		change(o, &o->goroutines, g, TRACE_RUNNING, true);
		run(o, step->m, g);
		break;
	case OP_GO_UNBLOCK:
		change(o, &o->goroutines, g, TRACE_RUNNABLE, true);
		break;
	case OP_GO_STOP:
	case OP_GO_SYSCALL_END_BLOCKED:
		leave(o, step, TRACE_RUNNABLE);
		break;
	case OP_GO_BLOCK:
		leave(o, step, TRACE_WAITING);
		break;
	case OP_GO_DESTROY_SYSCALL:
		if (step->p != TRACE_NO_P)
			change(o, &o->processors, step->p, PROC_ABANDONED, false);
		leave(o, step, 0);
		break;
	case OP_GO_DESTROY:
		leave(o, step, 0);
		break;
	case OP_GO_SYSCALL_BEGIN:
		enter_syscall(o, step);
		break;
	case OP_GO_SYSCALL_END:
		leave_syscall(o, step);
		break;
	default:
		emit_status(o, step);
	}
}

void order_take(struct order *o, struct trace_step *step)
{
	uint64_t p = find(&o->held, step->m);

	step->g = find(&o->running, step->m);
	step->p = p ? p - 1 : TRACE_NO_P;
	if (step->op >= OP_PROC_START && step->op <= OP_PROC_STATUS) {
		take_processor(o, step);
	} else if (step->op == OP_GO_SWITCH || step->op == OP_GO_SWITCH_DESTROY) {
		take_switch(o, step);
	} else if ((step->op >= OP_GO_CREATE && step->op <= OP_GO_STATUS) ||
		   step->op >= OP_GO_CREATE_BLOCKED) {
		take_goroutine(o, step);
	} else if (step->op >= OP_GC_ACTIVE && step->op <= OP_GC_END) {
		o->gc_seq = step->arg[0];
		o->gc_known = true;
	}
}

void order_release(struct order *o)
{
	map_release(&o->goroutines);
	map_release(&o->processors);
	map_release(&o->holders);
	map_release(&o->held);
	map_release(&o->running);
}
