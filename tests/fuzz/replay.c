/*
 * Runs a fuzz target without a fuzzer, as a unit test: on its seeds, on the files and folders that
 * are named, and, for some seconds, on seeds with changed words, the same ones each time.
 *
 *   replay_NAME [--seconds N] [FILE|FOLDER]...
 *   replay_NAME --write FOLDER      writes the seeds into it
 */
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "fuzz.h"

/* Of one input. An input is some KB, so this is far more than it can ask for in good faith. */
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

static void run(const void *bytes, size_t size)
{
	/* A block of its own: reading past its end is seen. */
	uint8_t *copy = malloc(size ? size : 1);

	fuzz_require(copy);
	memcpy(copy, bytes, size);
	alarm(MAX_SECONDS);
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

static size_t run_changed(const struct seeds *seeds, unsigned int seconds)
{
	uint64_t end = clock_now() + seconds * 1000000000ull;
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

#ifdef __SANITIZE_ADDRESS__
#define SANITIZED 1
#elif defined(__has_feature)
#define SANITIZED __has_feature(address_sanitizer)
#endif

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
	unsigned int seconds = 0;
	size_t files = 0, changed;
	bool good = true;

	fuzz_seeds(keep, &seeds);
	if (argc == 3 && !strcmp(argv[1], "--write"))
		return write_seeds(&seeds, argv[2]) ? 0 : 1;
	limit_memory();
	run_seeds(&seeds);
	for (int i = 1; good && i < argc; i++) {
		if (!strcmp(argv[i], "--seconds") && i + 1 < argc)
			seconds = atoi(argv[++i]);
		else
			good = run_path(argv[i], &files);
	}
	changed = run_changed(&seeds, seconds);
	printf("1..1\n%s 1 - %zu seeds, %zu files, %zu changed seeds\n", good ? "ok" : "not ok",
	       seeds.count, files, changed);
	return good ? 0 : 1;
}
