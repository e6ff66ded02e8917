/*
 * Which words of the target's memory tell where the stacks of its threads are: Go's list of M's,
 * and of each M and of its goroutines a few fields. Numbers alone, from the process that has read
 * the program (hooks/survey.h).
 */
#ifndef INJECT_RUNTIME_WORDS_H
#define INJECT_RUNTIME_WORDS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* No offset is larger (golayout/view.h: GOLAYOUT_M_LIMIT). */
#define RUNTIME_WORD_LIMIT 8192u

struct runtime_words {
	uint64_t allm; /* the address of the list's head */
	/* Offsets. */
	uint32_t m_procid, m_alllink, m_gsignal, m_curg;
	uint32_t g_stack_lo, g_stack_hi, g_sched_sp, g_sched_pc, g_sched_bp;
};

/* How many bytes have to be read of a g for all of its words. */
static inline size_t runtime_words_g_bytes(const struct runtime_words *w)
{
	const uint32_t offsets[] = {w->g_stack_lo, w->g_stack_hi, w->g_sched_sp, w->g_sched_pc,
				    w->g_sched_bp};
	size_t most = 0;

	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++)
		most = offsets[i] > most ? offsets[i] : most;
	return most + sizeof(uint64_t);
}

/* The word at this offset, of the bytes of a g that were read. */
static inline uint64_t runtime_word(const uint8_t *g, uint32_t offset)
{
	uint64_t word;

	memcpy(&word, g + offset, sizeof(word));
	return word;
}

#endif
