#include "inject/interrupted.h"

#include <signal.h>
#include <string.h>

#include "inject/signal_frame.h"

#define PAGE_BYTES 4096
#define PIECE_BYTES 32768
/* Handlers that interrupt each other on different stacks. */
#define MOST_STACKS 8

struct walk {
	struct target *t;
	struct interrupted_place place;
	uint64_t tls;
	size_t *left; /* bytes that may still be read */
};

static bool lies_above(uint64_t address, uint64_t at)
{
	return address - at < SIGNAL_FRAME_MOST;
}

static bool is_on_signal_stack(const struct signal_frame *f, uint64_t address)
{
	return address - f->stack < f->stack_size;
}

/*
 * The frame at `at` is of a signal that a thread with this stack pointer handles now: it is on the
 * signal stack that is saved with it, or, where the handler has none, on the one that was
 * interrupted. Frames of signals long handled, of other threads, do lie near: Go's heap has all
 * their stacks.
 */
static bool is_being_handled(const struct signal_frame *f, uint64_t at, uint64_t sp)
{
	return is_on_signal_stack(f, sp) || lies_above(f->sp, at);
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

/* Decides whether the bytes at `at`, which may be such a frame, are one. */
static enum step classify(const struct walk *w, const struct signal_frame *f, uint64_t at,
			  uint64_t sp)
{
	if (!is_being_handled(f, at, sp))
		return STEP_ON;
	if (w->place.has(w->place.arg, f->pc))
		return STEP_THERE;
	if (!signal_frame_is_whole(f, at))
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

	while ((n = read_piece(w, at, bytes)) >= sizeof(struct signal_frame)) {
		size_t i;

		for (i = 0; i + sizeof(struct signal_frame) <= n; i += 8) {
			struct signal_frame f;
			enum step step;

			/* A goroutine's stack ends in the heap: these are millions. */
			if (!signal_frame_is_likely(bytes + i))
				continue;
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
