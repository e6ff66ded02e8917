/* Where a stack goes on when its thread has changed from one to another. */
#include "unwind/running_walk.h"
#include "unwind/switches.h"

static bool is_amd64(const struct running_walk *w)
{
	return w->u->machine == MACHINE_AMD64;
}

/* The frame's SP by its frame record, and the record by SP: for functions with a frame. */
static uint64_t sp_of_record(const struct running_walk *w, const struct step *step, uint64_t fp)
{
	return is_amd64(w) ? fp + 8 - step->delta : fp + 8;
}

static uint64_t record_of_sp(const struct running_walk *w, const struct step *step, uint64_t sp)
{
	return is_amd64(w) ? sp + step->delta - 8 : sp - 8;
}

static bool has_frame(const struct step *step)
{
	return step->delta >= 8;
}

bool switch_find_goroutine(struct running_walk *w, uint64_t address)
{
	struct goroutine_place place;

	if (w->result.g)
		return running_is_on(&w->place, address ? address : w->place.sp);
	if (!w->in->g || !running_place_of(w, w->in->g, &place) ||
	    !running_is_on(&place, address ? address : place.sp))
		return false;
	w->result.g = w->in->g;
	w->place = place;
	return true;
}

static void guard_next(struct running_walk *w, enum guard guard, uint64_t sp)
{
	w->next_guard = guard;
	w->next_guard_sp = sp;
	/* If it waits at a known place, all frames further out wait too. */
	if (w->guard != GUARD_SAME_BYTES || w->beyond != GUARD_UNSET)
		return;
	w->beyond = guard;
	w->beyond_sp = sp;
}

/* Without a frame of its own: to its caller, as the binary has it for the sampled pc. */
static bool leave_by_code(struct running_walk *w, bool found)
{
	uint64_t fp = running_fp(w), return_address, sp;
	size_t place = chain_place(w, fp);
	const struct step *step;

	return_address =
		place ? systemstack_return_address(w, running_pc(w), w->in->chain[place]) : 0;
	step = return_address ? steps_at(&w->u->steps, return_address) : NULL;
	if (!step || !(step->flags & STEP_KNOWN) || !has_frame(step))
		return false;
	sp = sp_of_record(w, step, fp);
	running_move(w, return_address, sp, fp);
	guard_next(w, found ? GUARD_PARKED : GUARD_NOTHING, sp - 8);
	return true;
}

/* As it was, or is now. */
static bool word_on_its_stack(struct running_walk *w, uint64_t sp, uint64_t *ret)
{
	if (running_is_captured(w, sp))
		return running_word(w, sp, ret);
	return w->source->read && w->source->read(w->source->arg, sp, ret, sizeof(*ret));
}

/* Whether g.sched is of the same call of systemstack: the frame that made it has its record at fp.
 * A goroutine that has gone on may be in another, further inside. */
static bool is_same_call(struct running_walk *w, uint64_t fp)
{
	uint64_t sp = w->place.sp, return_address;
	const struct step *step;

	if (!sp || sp > fp || !word_on_its_stack(w, sp, &return_address))
		return false;
	step = steps_at(&w->u->steps, return_address);
	return step && step->flags & STEP_KNOWN && has_frame(step) &&
	       record_of_sp(w, step, sp + 8) == fp;
}

static bool is_of_sample(const struct running_walk *w)
{
	return w->in->sampled && w->in->sampled->g == w->result.g;
}

/* Its last word may be one at which the walk goes on. */
static enum walk_end go_by_chain(struct running_walk *w, uint64_t fp, bool *ret_moved)
{
	*ret_moved = true;
	return chain_take_behind_gap(w, chain_place(w, fp));
}

/* To systemstack on the goroutine's stack, as g.sched has it. */
static void go_to_sched(struct running_walk *w, const struct step *step)
{
	running_move(w, running_pc(w), w->place.sp,
		     has_frame(step) ? record_of_sp(w, step, w->place.sp) : 0);
	guard_next(w, GUARD_PARKED, w->place.sp);
}

/*
 * fp is the goroutine's: up to Go 1.20 that of systemstack's caller, later systemstack's own
 * record, which determines its SP. Before 1.21 only the code or g.sched determines it; the latter
 * as well when, on arm64, fp itself was not captured.
 */
static enum walk_end leave_systemstack(struct running_walk *w, const struct step *step,
				       bool *ret_moved)
{
	uint64_t fp = running_fp(w), sp;
	bool found = switch_find_goroutine(w, fp) || borrowed_find_lender(w, fp);

	if (!found && stale_find_goroutine(w)) {
		go_to_sched(w, step);
		return GO_ON;
	}
	if (!fp && found && is_of_sample(w))
		fp = record_of_sp(w, step, w->place.sp);
	if (has_frame(step)) {
		sp = sp_of_record(w, step, fp);
		running_move(w, running_pc(w), sp, fp);
		guard_next(w, found ? GUARD_PARKED : GUARD_NOTHING, sp);
		return GO_ON;
	}
	*ret_moved = leave_by_code(w, found);
	if (*ret_moved)
		return GO_ON;
	if (!found || !is_same_call(w, fp))
		return go_by_chain(w, fp, ret_moved);
	running_move(w, running_pc(w), w->place.sp, fp);
	guard_next(w, GUARD_PARKED, w->place.sp);
	return GO_ON;
}

/* The goroutine's function had no frame yet; g.sched has its pc and SP. */
static enum walk_end leave_morestack(struct running_walk *w, bool *ret_moved)
{
	uint64_t fp = running_fp(w);
	const struct step *step;

	if (running_dropped_g(w)) {
		w->result.is_scheduler = true;
		return AT_END;
	}
	/* morestack of Go 1.25 has cleared fp. */
	if ((!switch_find_goroutine(w, fp) && !stale_find_goroutine(w)) || !w->place.sp)
		return go_by_chain(w, fp, ret_moved);
	step = steps_at(&w->u->steps, w->place.pc);
	if (!step)
		return OUT_OF_MEMORY;
	if (!(step->flags & STEP_KNOWN) || (step->delta && is_amd64(w)))
		return go_by_chain(w, fp, ret_moved);
	running_move(w, w->place.pc, w->place.sp, fp);
	registers_set(&w->regs, w->roles->lr, is_amd64(w) ? w->place.pc : w->place.lr);
	guard_next(w, GUARD_PARKED, w->place.sp);
	*ret_moved = true;
	return GO_ON;
}

/*
 * asmcgocall has put the goroutine and the depth of its stack at its SP: runtime/asm_*.s; the
 * places differ by version, and another's may hold old words that look alike. The right ones agree
 * with the goroutine's present state or, if it has run since, with the goroutine that the thread
 * works for.
 */
static bool find_caller_of_c(struct running_walk *w, uint64_t *ret_sp)
{
	static const struct {
		uint8_t g, depth;
	} places[] = {{8, 0}, {48, 40}, {0, 8}};
	uint64_t sp = running_sp(w), g, depth;
	struct goroutine_place place;
	bool found = false;

	for (size_t i = 0; i < 3; i++) {
		if (!running_word(w, sp + places[i].g, &g) ||
		    !running_word(w, sp + places[i].depth, &depth) || !g ||
		    !running_place_of(w, g, &place) || depth > place.stack_hi - place.stack_lo ||
		    (place.sp != place.stack_hi - depth && (found || g != w->in->g)))
			continue;
		found = true;
		w->result.g = g;
		w->place = place;
		*ret_sp = place.stack_hi - depth;
		if (place.sp == *ret_sp)
			break;
	}
	return found;
}

/* It was on the thread's stack already, and has put its SP there. */
static bool find_same_stack(struct running_walk *w, uint64_t *ret_sp)
{
	static const uint8_t places[] = {0, 40, 8};
	uint64_t sp = running_sp(w);

	for (size_t i = 0; i < 3; i++)
		if (running_word(w, sp + places[i], ret_sp) && *ret_sp > sp && *ret_sp - sp < 256)
			return true;
	return false;
}

static enum walk_end leave_c(struct running_walk *w, const struct step *step)
{
	uint64_t sp;

	if (find_caller_of_c(w, &sp))
		guard_next(w, GUARD_PARKED, sp);
	else if (!find_same_stack(w, &sp))
		return CUT_OFF;
	running_move(w, running_pc(w), sp,
		     has_frame(step) ? record_of_sp(w, step, sp) : running_fp(w));
	return GO_ON;
}

/* fp is cgocallback's record on the thread's stack, where C waits. When that is not to be seen, the
 * walk goes on by the goroutine's stack, on which cgocallback has made itself a frame as well. */
static enum walk_end enter_c(struct running_walk *w, const struct step *step)
{
	uint64_t sp = sp_of_record(w, step, running_fp(w)), left;

	if (!w->u->modules || !w->source->thread_sp(w->source->arg, &left) || left != sp)
		return running_push(w, STACK_PC_TRUNCATED) ? GO_ON : OUT_OF_MEMORY;
	running_move(w, running_pc(w), sp, running_fp(w));
	guard_next(w, GUARD_THREAD, sp);
	return GO_ON;
}

/* Restores C's callee-saved registers, which crosscall2 saved: runtime/cgo/abi_amd64.h,
 * asm_arm64.s. */
static enum walk_end restore_c(struct running_walk *w, const struct step *step, bool *ret_moved)
{
	static const struct {
		uint8_t number, below; /* below the return address */
	} saved[] = {{AMD64_RBP, 8}, {15, 16},        {14, 24},
		     {13, 32},       {AMD64_R12, 40}, {AMD64_RBX, 48}};
	struct registers caller = {0};
	uint64_t sp = running_sp(w), ra = sp + step->delta, value;

	if (!is_amd64(w) || step->delta < 72)
		return GO_ON;
	for (size_t i = 0; i < 6; i++)
		if (running_word(w, ra - saved[i].below, &value))
			registers_set(&caller, saved[i].number, value);
	if (!running_word(w, ra, &value))
		return GO_ON;
	registers_set(&caller, AMD64_PC, value);
	registers_set(&caller, AMD64_RSP, ra + 8);
	w->regs = caller;
	*ret_moved = true;
	return GO_ON;
}

static enum walk_end restore_c_arm64(struct running_walk *w, const struct step *step,
				     bool *ret_moved)
{
	struct registers caller = {0};
	uint64_t sp = running_sp(w), value;

	if (step->delta != 192)
		return GO_ON;
	for (unsigned int i = 0; i < 10; i++)
		if (running_word(w, sp + 32 + 8 * i, &value))
			registers_set(&caller, 19 + i, value);
	if (running_word(w, sp + 176, &value))
		registers_set(&caller, ARM64_FP, value);
	if (!running_word(w, sp + 184, &value))
		return CUT_OFF;
	registers_set(&caller, ARM64_PC, value);
	registers_set(&caller, ARM64_SP, sp + 192);
	w->regs = caller;
	*ret_moved = true;
	return GO_ON;
}

/* Its own SP is in a register that the vDSO keeps. */
static enum walk_end leave_vdso(struct running_walk *w)
{
	uint64_t sp;

	if (!registers_get(&w->regs, is_amd64(w) ? AMD64_R12 : 20, &sp) || sp & 7)
		return CUT_OFF;
	running_move(w, running_pc(w), sp, running_fp(w));
	guard_next(w, GUARD_NOTHING, 0);
	return GO_ON;
}

/* Registers in the signal's context, by offset in struct ucontext: asm/sigcontext.h. */
static bool load_context(struct running_walk *w, uint64_t context, struct registers *ret)
{
	static const uint8_t amd64[] = {8,         9,         10,        11,        12,
					13,        14,        15,        AMD64_RDI, AMD64_RSI,
					AMD64_RBP, AMD64_RBX, AMD64_RDX, AMD64_RAX, AMD64_RCX,
					AMD64_RSP, AMD64_PC};
	size_t count = is_amd64(w) ? sizeof(amd64) : REGISTERS_MAX;
	uint64_t at = context + (is_amd64(w) ? 40 : 184), value;

	for (size_t i = 0; i < count; i++) {
		if (!running_word(w, at + 8 * i, &value))
			return false;
		registers_set(ret, is_amd64(w) ? amd64[i] : i, value);
	}
	return true;
}

/* The kernel's frame lies behind sigtramp's own: on amd64 the return address, which leads to
 * sigreturn, then the context; on arm64 128 bytes of siginfo, then the context. */
static enum walk_end leave_signal(struct running_walk *w, const struct step *step, bool *ret_moved)
{
	uint64_t frame = running_sp(w) + step->delta;
	uint64_t before = step->stack_switch == SWITCH_SIGRETURN ? 0 : is_amd64(w) ? 8 : 128;
	struct registers interrupted = {0};
	struct goroutine_place place;
	uint64_t g;

	if (!load_context(w, frame + before, &interrupted))
		return CUT_OFF;
	w->regs = interrupted;
	w->exact = true;
	w->from_c = false;
	guard_next(w, GUARD_NOTHING, 0);
	*ret_moved = true;
	if (registers_get(&interrupted, w->roles->g, &g) && running_place_of(w, g, &place)) {
		w->result.g = g;
		w->place = place;
	}
	return GO_ON;
}

/* The innermost frame is on either side of its switch. That of a signal is the kernel's, before the
 * first instruction. */
bool switch_is_done(const struct running_walk *w, const struct step *step)
{
	if (w->n > 1 || step->stack_switch == SWITCH_RESCHEDULE ||
	    step->stack_switch == SWITCH_SIGNAL || step->stack_switch == SWITCH_SIGRETURN)
		return true;
	if (step->stack_switch == SWITCH_CROSSCALL || step->stack_switch == SWITCH_CGOCALLBACK ||
	    step->stack_switch == SWITCH_SCHEDULER)
		return step->stack_switch == SWITCH_SCHEDULER && !w->result.g;
	return w->result.g && !running_is_on(&w->place, running_sp(w)) &&
	       (step->stack_switch != SWITCH_VDSO ||
		running_is_on(&w->place, w->regs.value[is_amd64(w) ? AMD64_R12 : 20]));
}

enum walk_end switch_follow(struct running_walk *w, const struct step *step, bool *ret_moved)
{
	if (!switch_is_done(w, step))
		return GO_ON;
	switch ((enum stack_switch)step->stack_switch) {
	case SWITCH_SYSTEMSTACK:
		return leave_systemstack(w, step, ret_moved);
	case SWITCH_MORESTACK:
		return leave_morestack(w, ret_moved);
	case SWITCH_RESCHEDULE:
		w->dropped_g_n = w->n;
		return GO_ON;
	case SWITCH_SCHEDULER:
		w->result.is_scheduler = true;
		return AT_END;
	case SWITCH_ASMCGOCALL:
		return leave_c(w, step);
	case SWITCH_CGOCALLBACK:
		return enter_c(w, step);
	case SWITCH_CROSSCALL:
		return is_amd64(w) ? restore_c(w, step, ret_moved)
				   : restore_c_arm64(w, step, ret_moved);
	case SWITCH_VDSO:
		return w->from_c || w->n == 1 ? leave_vdso(w) : GO_ON;
	case SWITCH_SIGNAL:
	case SWITCH_SIGRETURN:
		return leave_signal(w, step, ret_moved);
	case SWITCH_BORROWS:
	case SWITCH_NONE:
		break;
	}
	return GO_ON;
}
