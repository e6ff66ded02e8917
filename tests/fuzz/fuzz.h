/*
 * A fuzz target is one file, fuzz_NAME.c, with the two functions below. It is linked twice: with
 * libFuzzer, and with replay.c, which needs no fuzzer and makes a unit test of it.
 */
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Takes one input; always 0. Whatever is wrong shows as a sanitizer's report, a crash or a limit
 * exceeded. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Counts the inputs that were taken for good: so seeds that no longer are do not go unnoticed. */
extern size_t fuzz_accepted;

typedef void fuzz_emit(void *arg, const void *bytes, size_t size);

/* Hands over what fuzzing begins with: inputs that the code takes for good. */
void fuzz_seeds(fuzz_emit *emit, void *arg);

/*
 * Changes some words of the input: by a bit, by a little, to another word that is in it, to a value
 * that sits at the edge of something. The inputs are pictures of memory and files full of pointers
 * and offsets: their bytes must stay where they are for the rest to make sense.
 */
void fuzz_change_words(uint8_t *data, size_t size, uint32_t seed);

/* For conditions that hold on any working target; prints the condition and aborts. */
#define fuzz_require(condition) \
	((condition) ? (void)0 : fuzz_failed(#condition, __FILE__, __LINE__))
_Noreturn void fuzz_failed(const char *condition, const char *file, int line);

#endif
