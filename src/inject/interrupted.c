#include "inject/interrupted.h"

#include <signal.h>
#include <string.h>
#include <ucontext.h>

#include "base/array.h"

#define PAGE_BYTES 4096
#define PIECE_BYTES 32768
/* Handlers that interrupt each other on different stacks. */
#define MOST_STACKS 8
/* The segment of 64-bit code (asm/segment.h: __USER_CS). */
#define USER_CS 0x33
/* asm/ucontext.h: UC_FP_XSTATE, UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS. */
#define KNOWN_FLAGS 7
/* With all of a CPU's registers, and the red zone. */
#define MAX_FRAME_BYTES 16384

/* The kernel's struct ucontext (asm-generic/ucontext.h, asm/sigcontext.h). */
struct frame {
	uint64_t flags, link;
	uint64_t stack, stack_flags, stack_size;
	uint64_t registers[15];
	uint64_t sp, pc, eflags;
	uint16_t cs, gs, fs, ss;
	uint64_t error, trap, old_mask, cr2, fpstate, reserved[8];
	uint64_t mask;
};
_Static_assert(offsetof(struct frame, pc) == offsetof(ucontext_t, uc_mcontext.gregs[REG_RIP]),
	       "as the kernel has it");
_Static_assert(offsetof(struct frame, mask) == offsetof(ucontext_t, uc_sigmask),
	       "as the kernel has it");

struct walk {
	struct target *t;
	struct interrupted_place place;
	uint64_t tls;
	size_t *left; /* bytes that may still be read */
};

static bool lies_above(uint64_t address, uint64_t at)
{
	return address - at < MAX_FRAME_BYTES;
}

static bool is_on_signal_stack(const struct frame *f, uint64_t address)
{
	return address - f->stack < f->stack_size;
}

/*
 * The frame at `at` is of a signal that a thread with this stack pointer handles now: it is on the
 * signal stack that is saved with it, or, where the handler has none, on the one that was
 * interrupted. Frames of signals long handled, of other threads, do lie near: Go's heap has all
 * their stacks.
 */
static bool is_being_handled(const struct frame *f, uint64_t at, uint64_t sp)
{
	return is_on_signal_stack(f, sp) || lies_above(f->sp, at);
}

static bool is_whole(const struct frame *f, uint64_t at)
{
	return f->flags <= KNOWN_FLAGS && !f->link && (!f->fpstate || lies_above(f->fpstate, at));
}

/* Up to the end of the thread's stack, as far as that is known: above it is the C library's data of
 * the thread. */
static size_t bytes_to_read(const struct walk *w, uint64_t at)
{
	size_t n = PIECE_BYTES - at % PAGE_BYTES;

	if (w->tls > at && w->tls - at < n)
		n = w->tls - at;
	return n < *w->left ? n : *w->left;
}

/* Reads as much as is readable; 0: nothing. */
static size_t read_piece(struct walk *w, uint64_t at, void *bytes)
{
	size_t n = bytes_to_read(w, at), first = PAGE_BYTES - at % PAGE_BYTES, done = 0;

	*w->left -= n;
	if (!error_dropped(target_read(w->t, at, bytes, n)))
		return n;
	/* Somewhere in it the mapping ends. */
	for (size_t step = first; done < n; step = PAGE_BYTES) {
		step = step < n - done ? step : n - done;
		if (error_dropped(target_read(w->t, at + done, (char *)bytes + done, step)))
			break;
		done += step;
	}
	return done;
}

enum step { STEP_ON, STEP_TO_STACK, STEP_END, STEP_THERE };

/* Decides whether the bytes at `at` are such a frame. */
static enum step classify(const struct walk *w, const struct frame *f, uint64_t at, uint64_t sp)
{
	/* The first condition also rules out a function's frame: a frame pointer, and behind it the
	 * return address. */
	if (f->cs != USER_CS || !is_being_handled(f, at, sp))
		return STEP_ON;
	if (w->place.has(w->place.arg, f->pc))
		return STEP_THERE;
	if (!is_whole(f, at))
		return STEP_ON;
	if (is_on_signal_stack(f, sp) && is_on_signal_stack(f, f->sp))
		return STEP_ON;
	if (!f->mask)
		return STEP_END;
	return is_on_signal_stack(f, sp) ? STEP_TO_STACK : STEP_ON;
}

/* One stack from *sp on; STEP_TO_STACK: *sp is where it goes on. */
static enum step search(struct walk *w, uint64_t *sp)
{
	static uint8_t bytes[PIECE_BYTES];
	uint64_t at = *sp & ~7ull;
	size_t n;

	while ((n = read_piece(w, at, bytes)) >= sizeof(struct frame)) {
		size_t i;

		for (i = 0; i + sizeof(struct frame) <= n; i += 8) {
			struct frame f;
			enum step step;

			memcpy(&f, bytes + i, sizeof(f));
			step = classify(w, &f, at + i, *sp);
			if (step == STEP_TO_STACK)
				*sp = f.sp;
			if (step != STEP_ON)
				return step;
		}
		at += i;
	}
	return STEP_END;
}

enum interrupted interrupted_look(struct target *t, uint64_t sp, uint64_t tls, uint64_t mask,
				  size_t *left, struct interrupted_place place)
{
	struct walk w = {t, place, tls, left};
	enum step step = STEP_TO_STACK;

	if (!mask)
		return INTERRUPTED_ELSEWHERE;
	for (int i = 0; i < MOST_STACKS && step == STEP_TO_STACK; i++)
		step = search(&w, &sp);
	if (step == STEP_THERE)
		return INTERRUPTED_THERE;
	return step == STEP_END && *left ? INTERRUPTED_ELSEWHERE : INTERRUPTED_UNKNOWN;
}
