#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/map.h"
#include "fuzz.h"

#define MAX_CPU_SECONDS 10

size_t fuzz_accepted;

/* libFuzzer's own, when it is there. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size) __attribute__((weak));
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);

static uint64_t next(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return *state >> 29;
}

static uint64_t load(const uint8_t *data, size_t at, size_t width)
{
	uint64_t word = 0;

	memcpy(&word, data + at, width);
	return word;
}

static uint64_t edge(uint64_t *state, uint64_t size)
{
	const uint64_t values[] = {0,         1,          size,       UINT64_MAX, INT64_MAX,
				   INT32_MAX, UINT32_MAX, UINT16_MAX, 0x7fff,     1ull << 63};

	return next(state) % 2 ? values[next(state) % (sizeof(values) / sizeof(values[0]))]
			       : 1ull << next(state) % 64;
}

static uint64_t changed(const uint8_t *data, size_t size, size_t width, uint64_t word,
			uint64_t *state)
{
	switch (next(state) % 6) {
	case 0:
		return load(data, next(state) % (size / width) * width, width);
	case 1:
		return word + (next(state) % 65 - 32) * (next(state) % 2 ? 8 : 1);
	case 2:
		return edge(state, size);
	case 3:
		return next(state);
	case 4:
		return next(state) % 64;
	default:
		return word ^ 1ull << next(state) % (8 * width);
	}
}

void fuzz_change_words(uint8_t *data, size_t size, uint32_t seed)
{
	uint64_t state = seed;
	size_t count = 1 + next(&state) % 4;

	for (size_t i = 0; i < count; i++) {
		size_t width = (size_t[]){1, 2, 4, 8, 8, 8}[next(&state) % 6], at;
		uint64_t word;

		if (size < width)
			continue;
		at = next(&state) % (size / width) * width;
		word = changed(data, size, width, load(data, at, width), &state);
		memcpy(data + at, &word, width);
	}
}

/* An input does the same each time. */
__attribute__((constructor)) static void set_seed(void)
{
	hash_set_seed(1);
}

static void on_time(int number)
{
	static const char words[] = "this input takes too much processor time\n";

	if (write(STDERR_FILENO, words, sizeof(words) - 1) > 0)
		abort();
}

/* By libFuzzer's own limit time passes also while others have the processor. */
static void limit_time(void)
{
	struct itimerval limit = {.it_value = {.tv_sec = MAX_CPU_SECONDS}};

	signal(SIGPROF, on_time);
	setitimer(ITIMER_PROF, &limit, NULL);
}

/* Called before each input. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
	limit_time();
	if (seed % 8 == 0 || size < 8)
		return LLVMFuzzerMutate(data, size, max_size);
	fuzz_change_words(data, size, seed);
	return size;
}

/* Whoever waits for a process to make up its mind (golayout/validate.c) need not wait here. */
int usleep(useconds_t time)
{
	return 0;
}

_Noreturn void fuzz_failed(const char *condition, const char *file, int line)
{
	fprintf(stderr, "%s:%d: %s does not hold\n", file, line, condition);
	abort();
}
