/*
 * Runs a fuzz target without a fuzzer, as a unit test: on its seeds, on the files and folders that
 * are named, and, for some seconds, on seeds with changed words, the same ones each time.
 *
 *   replay_NAME [--seconds N] [FILE|FOLDER]...
 *   replay_NAME --write FOLDER      writes the seeds into it
 *   replay_NAME --grow ROUNDS [BYTES [NS]]   on inputs that grow, which may take so many bytes
 *                                   and ns a byte
 */
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "fuzz.h"

/* The time limit of one input. An input is some KB, and needs far less. */
#define MAX_SECONDS 10
#define MAX_MEGABYTES 1024

struct seed {
	uint8_t *bytes;
	size_t size;
};

struct seeds {
	struct seed items[64];
	size_t count;
};

/* Processor time is measured then, whoever else wants the processor. */
static bool growing;

static void run(const void *bytes, size_t size)
{
	/* A block of its own: reading past its end is seen. */
	uint8_t *copy = malloc(size ? size : 1);

	fuzz_require(copy);
	memcpy(copy, bytes, size);
	alarm(growing ? 0 : MAX_SECONDS);
	LLVMFuzzerTestOneInput(copy, size);
	alarm(0);
	free(copy);
}

static void run_seeds(const struct seeds *seeds)
{
	for (size_t i = 0; i < seeds->count; i++) {
		size_t before = fuzz_accepted;

		run(seeds->items[i].bytes, seeds->items[i].size);
		fuzz_require(fuzz_accepted > before);
	}
}

static void keep(void *arg, const void *bytes, size_t size)
{
	struct seeds *seeds = arg;
	struct seed *seed = &seeds->items[seeds->count++];

	fuzz_require(seeds->count <= 64);
	*seed = (struct seed){malloc(size), size};
	fuzz_require(seed->bytes);
	memcpy(seed->bytes, bytes, size);
}

static bool run_file(const char *path)
{
	_cleanup_fclose_ FILE *f = fopen(path, "rb");
	_cleanup_free_ uint8_t *bytes = NULL;
	struct stat st;

	if (!f || fstat(fileno(f), &st)) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		return false;
	}
	bytes = malloc(st.st_size + 1);
	if (!bytes || fread(bytes, 1, st.st_size, f) != (size_t)st.st_size)
		return false;
	printf("# %s\n", path);
	fflush(stdout);
	run(bytes, st.st_size);
	return true;
}

/* *count is how many files were run. */
static bool run_path(const char *path, size_t *count)
{
	DIR *folder = opendir(path);
	struct dirent *entry;
	bool good = true;

	if (!folder) {
		++*count;
		return run_file(path);
	}
	while (good && (entry = readdir(folder))) {
		_cleanup_free_ char *file = NULL;

		if (entry->d_name[0] == '.')
			continue;
		good = asprintf(&file, "%s/%s", path, entry->d_name) > 0 && run_file(file);
		++*count;
	}
	closedir(folder);
	return good;
}

static size_t run_changed(const struct seeds *seeds, double seconds)
{
	uint64_t end = clock_now() + (uint64_t)(seconds * 1e9);
	uint32_t n = 0;

	while (clock_now() < end) {
		const struct seed *seed = &seeds->items[n % seeds->count];
		uint8_t *copy = malloc(seed->size);

		fuzz_require(copy);
		memcpy(copy, seed->bytes, seed->size);
		fuzz_change_words(copy, seed->size, n);
		run(copy, seed->size);
		free(copy);
		n++;
	}
	return n;
}

#ifdef __SANITIZE_ADDRESS__
#define SANITIZED 1
#elif defined(__has_feature)
#define SANITIZED __has_feature(address_sanitizer)
#else
#define SANITIZED 0
#endif

/*
 * Growth: whatever an input says, it takes no more time and memory than so much a byte of it, and
 * what a small one takes. What is quadratic in some count is far beyond that at the largest size:
 * 1 MB has 65,536 things of 16 bytes, and 4 thousand million pairs.
 */
#define ACCEPTED 33
#define TRIES 16
#define MAX_GROWN_SECONDS 30
#define SMALLEST (64u << 10)
#define LARGEST (1u << 20)
#define SLOWER (SANITIZED ? 10 : 1)
#define MOST_NS_A_BYTE 2000ull
#define MOST_NS_ANYWAY (500000000ull * SLOWER)
#define MOST_BYTES_A_BYTE 256
#define MOST_BYTES_ANYWAY (64ull << 20 << (SANITIZED ? 3 : 0))

struct taken {
	uint64_t ns;    /* of processor time */
	uint64_t bytes; /* of memory, at most */
	bool accepted;
};

struct growth {
	uint64_t bytes_a_byte; /* of memory that are permitted */
	uint64_t ns_a_byte;    /* of processor time, likewise */
	double ns, bytes;      /* that were taken for a byte, at most */
	size_t runs, accepted;
};

static uint64_t processor_time(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

/* Measures in a process of its own; `size` 0: the cost without an input. */
static bool measure(const uint8_t *bytes, size_t size, struct taken *ret)
{
	static uint64_t *ns;
	struct rusage usage;
	pid_t pid;
	int status;

	if (!ns)
		ns = mmap(NULL, sizeof(*ns), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
			  0);
	fuzz_require(ns != MAP_FAILED);
	*ns = UINT64_MAX;

	fflush(stdout);
	pid = fork();
	fuzz_require(pid >= 0);
	if (!pid) {
		const struct rlimit most = {MAX_GROWN_SECONDS, MAX_GROWN_SECONDS};
		uint64_t begin = processor_time();

		fuzz_require(!setrlimit(RLIMIT_CPU, &most));
		fuzz_accepted = 0;
		if (size)
			run(bytes, size);
		*ns = processor_time() - begin;
		_exit(fuzz_accepted ? ACCEPTED : 0);
	}
	fuzz_require(wait4(pid, &status, 0, &usage) == pid);
	ret->ns = *ns;
	ret->bytes = usage.ru_maxrss * 1024ull;
	ret->accepted = WIFEXITED(status) && WEXITSTATUS(status) == ACCEPTED;
	return ret->accepted || (WIFEXITED(status) && !WEXITSTATUS(status));
}

/* Repeats a part of a seed, mostly a small one, as records are, until it has the size. In every
 * other input some words are changed too: counts. */
static void grow(const struct seed *seed, uint32_t number, uint8_t *ret, size_t size)
{
	static const uint32_t longest[] = {16, 64, 256, 4096};
	uint64_t dice = (number + 1) * 0x9e3779b97f4a7c15ull;
	size_t align = dice >> 20 & 1 ? 7 : 0;
	size_t begin = (dice >> 32) % seed->size & ~align, most = seed->size - begin;
	size_t part = (1 + (dice >> 24) % longest[dice >> 21 & 3] + align) & ~align;
	size_t repeated = size - seed->size;

	part = part < most ? part : most;

	memcpy(ret, seed->bytes, begin);
	for (size_t i = 0; i < repeated; i++)
		ret[begin + i] = seed->bytes[begin + i % part];
	memcpy(ret + begin + repeated, seed->bytes + begin, seed->size - begin);
	if (number % 2)
		for (uint32_t i = 0; i < 4; i++)
			fuzz_change_words(ret, seed->size, number + i);
}

static bool is_in_bounds(struct growth *g, const struct seed *seed, uint32_t number, uint8_t *bytes,
			 size_t size)
{
	uint64_t most_ns = MOST_NS_ANYWAY + g->ns_a_byte * SLOWER * size;
	uint64_t most_bytes = MOST_BYTES_ANYWAY + g->bytes_a_byte * size * (SANITIZED ? 4 : 1);
	struct taken without, taken;
	bool done;

	grow(seed, number, bytes, size);
	fuzz_require(measure(bytes, 0, &without));
	done = measure(bytes, size, &taken);
	taken.bytes = taken.bytes > without.bytes ? taken.bytes - without.bytes : 0;
	g->runs++;
	g->accepted += taken.accepted;
	if (size == LARGEST && (double)taken.ns / size > g->ns)
		g->ns = (double)taken.ns / size;
	if (size == LARGEST && (double)taken.bytes / size > g->bytes)
		g->bytes = (double)taken.bytes / size;
	if (done && taken.ns <= most_ns && taken.bytes <= most_bytes) {
		if (taken.ns > most_ns / 4)
			printf("# number %u, %zu bytes: %.3f s\n", number, size, taken.ns / 1e9);
		return true;
	}
	printf("# number %u, %zu bytes: %s%.3f s of %.3f, %.1f MB of %.1f\n", number, size,
	       done ? "" : "failed, ", taken.ns / 1e9, most_ns / 1e9, taken.bytes / 1e6,
	       most_bytes / 1e6);
	return false;
}

/* The one of many that takes longest while it is small; once in three times, most memory. */
static uint32_t find_worst(const struct seed *seed, uint32_t round, uint8_t *bytes)
{
	uint32_t worst = 0;
	uint64_t most = 0;

	for (uint32_t i = round * TRIES; i < (round + 1) * TRIES; i++) {
		struct taken taken = {0};
		uint64_t cost;

		grow(seed, i, bytes, SMALLEST);
		/* One that fails is what we look for. */
		if (!measure(bytes, SMALLEST, &taken))
			return i;
		cost = round % 3 == 2 ? taken.bytes : taken.ns;
		worst = cost > most ? i : worst;
		most = cost > most ? cost : most;
	}
	return worst;
}

static bool run_grown(const struct seeds *seeds, uint32_t rounds, struct growth *g)
{
	_cleanup_free_ uint8_t *bytes = malloc(LARGEST);
	bool good = true;

	fuzz_require(bytes);
	memset(bytes, 0, LARGEST); /* or a child that writes to it takes more */
	for (uint32_t round = 0; good && round < rounds; round++) {
		const struct seed *seed = &seeds->items[round % seeds->count];
		uint32_t number = seed->size > SMALLEST ? round : find_worst(seed, round, bytes);

		for (size_t size = SMALLEST; good && size <= LARGEST; size *= 4)
			good = seed->size > size || is_in_bounds(g, seed, number, bytes, size);
	}
	printf("1..1\n%s 1 - %zu inputs of %u to %u bytes, of which %zu were taken for good; "
	       "%.0f ns and %.0f bytes a byte at most\n",
	       good ? "ok" : "not ok", g->runs, SMALLEST, LARGEST, g->accepted, g->ns, g->bytes);
	return good;
}

static bool write_seeds(const struct seeds *seeds, const char *folder)
{
	for (size_t i = 0; i < seeds->count; i++) {
		_cleanup_free_ char *path = NULL;
		_cleanup_fclose_ FILE *f = NULL;

		if (asprintf(&path, "%s/seed-%zu", folder, i) < 0)
			return false;
		f = fopen(path, "wb");
		if (!f || fwrite(seeds->items[i].bytes, 1, seeds->items[i].size, f) !=
				  seeds->items[i].size) {
			fprintf(stderr, "%s: %s\n", path, strerror(errno));
			return false;
		}
	}
	return true;
}

/* A sanitizer reserves terabytes of addresses; it has a limit of its own. */
static void limit_memory(void)
{
#if !SANITIZED
	struct rlimit limit = {MAX_MEGABYTES * 1048576ul, MAX_MEGABYTES * 1048576ul};

	fuzz_require(!setrlimit(RLIMIT_AS, &limit));
#endif
}

static void seeds_release(struct seeds *seeds)
{
	for (size_t i = 0; i < seeds->count; i++)
		free(seeds->items[i].bytes);
}

int main(int argc, char **argv)
{
	__attribute__((cleanup(seeds_release))) struct seeds seeds = {.count = 0};
	double seconds = 0;
	size_t files = 0, changed;
	bool good = true;

	fuzz_seeds(keep, &seeds);
	if (argc == 3 && !strcmp(argv[1], "--write"))
		return write_seeds(&seeds, argv[2]) ? 0 : 1;
	limit_memory();
	if (argc >= 3 && !strcmp(argv[1], "--grow")) {
		struct growth g = {argc > 3 ? strtoull(argv[3], NULL, 10) : MOST_BYTES_A_BYTE,
				   argc > 4 ? strtoull(argv[4], NULL, 10) : MOST_NS_A_BYTE};

		growing = true;
		return run_grown(&seeds, atoi(argv[2]), &g) ? 0 : 1;
	}
	run_seeds(&seeds);
	for (int i = 1; good && i < argc; i++) {
		if (!strcmp(argv[i], "--seconds") && i + 1 < argc)
			seconds = strtod(argv[++i], NULL);
		else
			good = run_path(argv[i], &files);
	}
	changed = run_changed(&seeds, seconds);
	printf("1..1\n%s 1 - %zu seeds, %zu files, %zu changed seeds\n", good ? "ok" : "not ok",
	       seeds.count, files, changed);
	return good ? 0 : 1;
}
