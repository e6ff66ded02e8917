/*
 * What one look at all goroutines of a process costs, in CPU time of the reader.
 *
 *	snapshot_bench PID ROUNDS
 *
 * prints one line of JSON: the first look, then the medians with min and max of
 *	full         every stack is read: what was seen before is forgotten
 *	incremental  back to back; nobody moved, so headers are compared and no stack is read
 *	cold         the same, after the caches were filled with other things
 * in rounds of one each. Times are in nanoseconds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "goroutine/goroutines.h"

#define UNIT_BYTES (256 << 10)
#define STACK_LIMIT (64 << 10)
#define MAX_ROUNDS 1000
/* Several times the largest cache that one core may fill. */
#define EVICT_BYTES (256 << 20)

enum kind { FULL, INCREMENTAL, COLD, KINDS };
static const char *const kind_names[KINDS] = {"full", "incremental", "cold"};

struct bench {
	struct target *t;
	struct image *img;
	struct golayout *lay;
	struct goroutine_set *set;
	uint32_t *order;
	size_t unit_count;
	uint8_t *evict;
	uint64_t times[KINDS][MAX_ROUNDS];
};

static struct error *bench_plan(struct bench *b)
{
	const struct goroutine_unit *units;
	struct error *err;

	err = goroutine_set_refresh(b->set);
	if (!err)
		err = goroutine_set_plan(b->set, UNIT_BYTES, &units, &b->unit_count);
	if (err)
		return err;
	b->evict = calloc(1, EVICT_BYTES);
	b->order = calloc(b->unit_count + 1, sizeof(*b->order));
	if (!b->order || !b->evict)
		return &error_no_memory;
	for (size_t i = 0; i < b->unit_count; i++)
		b->order[i] = i;
	return NULL;
}

static struct error *look_at_all(struct bench *b)
{
	for (size_t at = 0, scanned; at < b->unit_count; at += scanned) {
		struct error *err =
			goroutine_set_scan(b->set, b->order + at, b->unit_count - at, &scanned);

		if (err)
			return err;
	}
	return NULL;
}

static void forget_all(struct bench *b)
{
	memset(goroutine_set_records(b->set), 0,
	       goroutine_set_count(b->set) * sizeof(struct goroutine_record));
}

static void fill_caches(struct bench *b)
{
	for (size_t i = 0; i < EVICT_BYTES; i += 64)
		b->evict[i]++;
}

/* Sets the state that a look of this kind needs. */
static struct error *prepare(struct bench *b, enum kind kind)
{
	struct error *err = NULL;

	if (kind == COLD) {
		fill_caches(b);
	} else {
		if (kind == FULL)
			forget_all(b);
		err = look_at_all(b);
		if (kind == FULL)
			forget_all(b);
	}
	return err;
}

static struct error *measure(struct bench *b, enum kind kind, int round)
{
	struct error *err = prepare(b, kind);
	uint64_t start = clock_cpu();

	if (!err)
		err = look_at_all(b);
	b->times[kind][round] = clock_cpu() - start;
	return err;
}

static struct error *measure_rounds(struct bench *b, int rounds)
{
	for (int round = 0; round < rounds; round++) {
		for (int kind = 0; kind < KINDS; kind++) {
			struct error *err = measure(b, kind, round);

			if (err)
				return err;
		}
	}
	return NULL;
}

/* The time from the start to the first look, which a dump needs before it prints. */
static struct error *bench_open(struct bench *b, pid_t pid)
{
	struct goroutine_options options = {.stack_limit = STACK_LIMIT};
	bool starting;
	struct error *err;

	err = target_open_process(pid, &b->t);
	if (!err)
		err = image_open(b->t, NULL, &b->img);
	if (!err)
		err = golayout_open(b->img, b->t, &b->lay);
	if (!err)
		err = golayout_validate(b->lay, b->img, b->t, &starting);
	if (!err)
		err = goroutine_set_open(b->t, b->img, b->lay, &options, &b->set);
	return err;
}

static size_t count_alive(struct bench *b)
{
	const struct goroutine_record *records = goroutine_set_records(b->set);
	size_t alive = 0;

	for (size_t i = 0; i < goroutine_set_count(b->set); i++)
		alive += goroutine_is_alive(&records[i]);
	return alive;
}

/* The mean depth in frames that are not inlined, without runtime.goexit. */
static double mean_depth(struct bench *b)
{
	const struct goroutine_record *records = goroutine_set_records(b->set);
	size_t frames = 0, alive = 0;

	for (size_t i = 0; i < goroutine_set_count(b->set); i++) {
		if (!goroutine_is_alive(&records[i]))
			continue;
		alive++;
		frames += stacks_get(goroutine_set_stacks(b->set), records[i].stack).count;
	}
	return alive ? (double)frames / alive - 1 : 0;
}

static int compare_times(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void print_times(struct bench *b, int rounds)
{
	for (int kind = 0; kind < KINDS; kind++) {
		uint64_t *times = b->times[kind];

		qsort(times, rounds, sizeof(*times), compare_times);
		printf(", \"%s\": [%lu, %lu, %lu]", kind_names[kind], times[rounds / 2], times[0],
		       times[rounds - 1]);
	}
}

static struct error *bench_run(struct bench *b, pid_t pid, int rounds)
{
	uint64_t start = clock_cpu(), opened, first;
	const struct goroutine_stats *stats;
	struct error *err;

	err = bench_open(b, pid);
	opened = clock_cpu();
	if (!err)
		err = bench_plan(b);
	if (!err)
		err = look_at_all(b);
	first = clock_cpu();
	if (!err)
		err = measure_rounds(b, rounds);
	if (err)
		return err;
	stats = goroutine_set_stats(b->set);
	printf("{\"goroutines\": %zu, \"frames\": %.2f, \"open\": %lu, \"first\": %lu",
	       count_alive(b), mean_depth(b), opened - start, first - opened);
	print_times(b, rounds);
	printf(", \"stacks_read\": %lu, \"torn\": %lu, \"unknown\": %lu}\n", stats->stacks,
	       stats->torn, stats->unknown);
	return NULL;
}

static void bench_close(struct bench *b)
{
	free(b->order);
	free(b->evict);
	goroutine_set_close(b->set);
	golayout_close(b->lay);
	image_close(b->img);
	target_close(b->t);
}

int main(int argc, char **argv)
{
	static struct bench b;
	int rounds = argc == 3 ? atoi(argv[2]) : 0;
	_cleanup_error_ struct error *err = NULL;

	if (rounds < 1 || rounds > MAX_ROUNDS) {
		fprintf(stderr, "snapshot_bench: usage: snapshot_bench PID ROUNDS (1 to %d)\n",
			MAX_ROUNDS);
		return 2;
	}
	err = bench_run(&b, atoi(argv[1]), rounds);
	bench_close(&b);
	if (err)
		fprintf(stderr, "snapshot_bench: %s\n", err->message);
	return err != NULL;
}
