#include "collect/cpu_samples.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/permit.h"
#include "image/modules.h"
#include "oncpu/sampler.h"
#include "unwind/stacks.h"

/* So often the kernel's rings are emptied, and sooner if they then have this many samples of one
 * CPU. They hold 60 of the largest. */
#define DRAIN_NS 100000000ull
#define DRAIN_SAMPLES 20
/* A sample may come into its ring so long after the time that it has. */
#define LATE_NS 1000000ull
#define MOST_WAITING ((16u << 20) / sizeof(struct waiting_sample))
#define MOST_WORDS ((16u << 20) / sizeof(uint64_t))
/* When the unwinder knows stacks of so many words, all are forgotten. */
#define MANY_WORDS (MOST_WORDS / 2)

struct waiting_sample {
	uint64_t ns;
	uint64_t thread;
	uint64_t start_pc;
	uint32_t stack;      /* its number, as long as it is fresh */
	uint32_t word_count; /* of its stack, when it waits */
	bool no_goroutine;
};

struct cpu_samples {
	/* The sampling thread's alone. */
	struct oncpu_sampler *sampler;
	struct stacks *stacks;
	const struct image *img;
	struct map known; /* stacks whose C functions have names */
	size_t known_words;
	struct waiting_sample *fresh;
	size_t fresh_count;
	size_t fresh_capacity;
	int priority;
	uint64_t drain_ns;

	/* Of both threads, under the lock. */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct waiting_sample *waiting;
	size_t begin; /* those before it were taken */
	size_t end;
	size_t capacity;
	uint64_t *words; /* of the stacks of those that wait, in their order */
	size_t word_begin;
	size_t word_end;
	size_t word_capacity;
	struct c_functions c_functions; /* of all stacks; the sampling thread adds to it */
	uint64_t wanted_ns;
	uint64_t seen_ns; /* all samples up to this time are waiting, or were taken */
	bool quit;
	bool ended; /* no more come */
	struct cpu_samples_stats stats;

	/* The taking thread's alone. */
	uint64_t *copy;
	size_t copy_capacity;
	bool started;
	pthread_t thread;
};

/* ---- the sampling thread ---- */

/* A word outside Go and the kernel, whose name is not known yet. */
static bool is_new_c(const struct cpu_samples *c, uint64_t word)
{
	struct go_func f;

	return !stack_pc_is_pseudo(word) && !stack_pc_is_kernel(word) &&
	       !map_find(&c->c_functions.words, word) &&
	       !pclntab_find(&c->img->functions, stack_pc_lookup(word), &f);
}

/* The names are the sampler's, which ends before the trace is written. */
static bool name_c(struct cpu_samples *c, uint32_t number)
{
	struct modules *modules = oncpu_sampler_modules(c->sampler);
	struct stack stack = stacks_get(c->stacks, number);
	bool added = true;

	for (uint32_t i = 0; added && i < stack.count; i++) {
		const char *function, *file = "";

		if (!is_new_c(c, stack.pcs[i]))
			continue;
		function = modules_function(modules, stack_pc_lookup(stack.pcs[i]), &file);
		if (!function)
			continue;
		pthread_mutex_lock(&c->lock);
		added = c_functions_add(&c->c_functions, stack.pcs[i], function, file);
		pthread_mutex_unlock(&c->lock);
	}
	return added;
}

static struct error *must_check meet(struct cpu_samples *c, uint32_t number)
{
	uint64_t *known = map_at(&c->known, number);

	if (!known || (!*known && !name_c(c, number)))
		return &error_no_memory;
	if (!*known)
		c->known_words += stacks_get(c->stacks, number).count;
	*known = 1;
	return NULL;
}

static struct error *take_fresh(void *arg, const struct oncpu_thread_sample *sample)
{
	struct cpu_samples *c = arg;
	struct error *err = meet(c, sample->stack);

	if (!err && !array_reserve(&c->fresh, &c->fresh_capacity, c->fresh_count + 1))
		err = &error_no_memory;
	if (err)
		return err;
	c->fresh[c->fresh_count++] = (struct waiting_sample){
		.ns = sample->time,
		.thread = sample->thread,
		.start_pc = sample->start_pc,
		.stack = sample->stack,
		.no_goroutine = sample->no_goroutine,
	};
	return NULL;
}

static int by_time(const void *a, const void *b)
{
	const struct waiting_sample *x = a, *y = b;

	return (x->ns > y->ns) - (x->ns < y->ns);
}

/* Moves what waits to the beginning, where more was taken than waits. */
static void close_gap(struct cpu_samples *c)
{
	size_t samples = c->end - c->begin, words = c->word_end - c->word_begin;

	if (c->begin > samples) {
		memmove(c->waiting, c->waiting + c->begin, samples * sizeof(*c->waiting));
		c->begin = 0;
		c->end = samples;
	}
	if (c->word_begin > words) {
		memmove(c->words, c->words + c->word_begin, words * sizeof(*c->words));
		c->word_begin = 0;
		c->word_end = words;
	}
}

static bool make_room(struct cpu_samples *c, size_t words)
{
	close_gap(c);
	return c->end - c->begin < MOST_WAITING &&
	       c->word_end - c->word_begin + words <= MOST_WORDS &&
	       array_reserve(&c->waiting, &c->capacity, c->end + 1) &&
	       array_reserve(&c->words, &c->word_capacity, c->word_end + words + 1);
}

/* Adds a sample to those that wait, under the lock. */
static void put(struct cpu_samples *c, struct waiting_sample *sample)
{
	struct stack stack = stacks_get(c->stacks, sample->stack);

	c->stats.samples++;
	if (!make_room(c, stack.count)) {
		c->stats.lost++;
		return;
	}
	if (stack.count)
		memcpy(c->words + c->word_end, stack.pcs, stack.count * sizeof(*c->words));
	c->word_end += stack.count;
	sample->word_count = stack.count;
	c->waiting[c->end++] = *sample;
}

/* Hands over the samples up to this time; later ones stay, because earlier ones may still come. */
static void publish(struct cpu_samples *c, uint64_t seen_ns)
{
	struct oncpu_stats stats = oncpu_sampler_stats(c->sampler);
	size_t count = 0;

	if (c->fresh_count)
		qsort(c->fresh, c->fresh_count, sizeof(*c->fresh), by_time);
	pthread_mutex_lock(&c->lock);
	for (; count < c->fresh_count && c->fresh[count].ns <= seen_ns; count++)
		put(c, &c->fresh[count]);
	c->seen_ns = seen_ns;
	c->stats.threads_unseen = stats.threads_unseen;
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
	c->fresh_count -= count;
	if (c->fresh_count)
		memmove(c->fresh, c->fresh + count, c->fresh_count * sizeof(*c->fresh));
}

static struct stacks *new_stacks(const struct image *img)
{
	struct stacks *stacks = stacks_create(&img->functions, img->machine);

	if (stacks)
		stacks_limit(stacks, MOST_WORDS);
	return stacks;
}

static void lose_fresh(struct cpu_samples *c)
{
	pthread_mutex_lock(&c->lock);
	c->stats.lost += c->fresh_count;
	pthread_mutex_unlock(&c->lock);
	c->fresh_count = 0;
}

/* Keeps those of fresh samples. */
static struct error *must_check forget_stacks(struct cpu_samples *c)
{
	struct stacks *before = c->stacks;
	_cleanup_stacks_ struct stacks *unused = new_stacks(c->img);
	struct error *err = unused ? NULL : &error_no_memory;

	for (size_t i = 0; !err && i < c->fresh_count; i++) {
		struct stack stack = stacks_get(before, c->fresh[i].stack);

		err = stacks_intern(unused, stack.pcs, stack.count, &c->fresh[i].stack);
	}
	if (err) {
		lose_fresh(c);
		return err;
	}
	c->stacks = unused;
	unused = before;
	map_release(&c->known);
	c->known_words = 0;
	return oncpu_sampler_use_stacks(c->sampler, c->stacks);
}

/* False: sampling has failed. */
static bool drain(struct cpu_samples *c, bool last)
{
	uint64_t now = clock_now();
	struct error *err = oncpu_sampler_drain(c->sampler);

	publish(c, last ? UINT64_MAX : now - LATE_NS);
	if (!err && c->known_words > MANY_WORDS)
		err = forget_stacks(c);
	return !error_dropped(err);
}

/* Waits for the next time to drain. False: it is over. */
static bool wait_for_work(struct cpu_samples *c)
{
	uint64_t until = clock_now() + c->drain_ns;
	struct timespec at = {until / 1000000000, until % 1000000000};
	bool goes_on;

	pthread_mutex_lock(&c->lock);
	while (!c->quit && c->wanted_ns <= c->seen_ns && clock_now() < until)
		pthread_cond_timedwait(&c->changed, &c->lock, &at);
	goes_on = !c->quit;
	pthread_mutex_unlock(&c->lock);
	return goes_on;
}

static void *work(void *arg)
{
	struct cpu_samples *c = arg;

	if (permitted(PERMIT_PRIORITY))
		setpriority(PRIO_PROCESS, 0, c->priority);
	while (wait_for_work(c) && drain(c, false))
		;
	drain(c, true);
	pthread_mutex_lock(&c->lock);
	c->ended = true;
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

/* ---- the taking thread ---- */

static struct error *must_check start(struct cpu_samples *c)
{
	sigset_t all, mask;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &mask);
	err = pthread_create(&c->thread, NULL, work, c);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	if (err)
		return error_errno(ERROR_FAILED, err, "cannot start a thread");
	c->started = true;
	return NULL;
}

static void init_lock(struct cpu_samples *c)
{
	pthread_condattr_t attr;

	pthread_mutex_init(&c->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&c->changed, &attr);
	pthread_condattr_destroy(&attr);
}

static struct error *must_check open_sampler(struct cpu_samples *c, struct target *t,
					     const struct golayout *lay, double hz)
{
	const struct oncpu_options options = {.hz = hz,
					      .sampled = take_fresh,
					      .stacks = c->stacks,
					      .arg = c};
	struct error *err = oncpu_sampler_open(t, c->img, lay, NULL, &options, &c->sampler);

	if (!err)
		c->stats.period_ns = oncpu_sampler_stats(c->sampler).period_ns;
	return err;
}

struct error *cpu_samples_open(struct target *t, const struct image *img,
			       const struct golayout *lay, double hz, int priority,
			       struct cpu_samples **ret)
{
	struct cpu_samples *c = calloc(1, sizeof(*c));
	struct error *err;

	if (!c)
		return &error_no_memory;
	init_lock(c);
	c->img = img;
	c->priority = priority;
	c->drain_ns = DRAIN_SAMPLES / hz * 1e9;
	if (c->drain_ns > DRAIN_NS)
		c->drain_ns = DRAIN_NS;
	c->stacks = new_stacks(img);
	err = c->stacks ? open_sampler(c, t, lay, hz) : &error_no_memory;
	if (!err)
		err = start(c);
	if (err) {
		cpu_samples_close(c);
		return err;
	}
	*ret = c;
	return NULL;
}

void cpu_samples_fetch(struct cpu_samples *c, uint64_t ns)
{
	uint64_t now = clock_now(), ready = ns + LATE_NS;

	if (now < ready)
		nanosleep(&(struct timespec){.tv_nsec = ready - now}, NULL);
	pthread_mutex_lock(&c->lock);
	c->wanted_ns = ns;
	pthread_cond_broadcast(&c->changed);
	while (!c->ended && c->seen_ns < ns)
		pthread_cond_wait(&c->changed, &c->lock);
	pthread_mutex_unlock(&c->lock);
}

uint64_t cpu_samples_next(struct cpu_samples *c)
{
	uint64_t ns;

	pthread_mutex_lock(&c->lock);
	ns = c->begin < c->end ? c->waiting[c->begin].ns : UINT64_MAX;
	pthread_mutex_unlock(&c->lock);
	return ns;
}

bool cpu_samples_take(struct cpu_samples *c, uint64_t ns, struct taken_sample *ret)
{
	const struct waiting_sample *s;
	uint32_t count;
	bool taken;

	pthread_mutex_lock(&c->lock);
	s = c->begin < c->end ? &c->waiting[c->begin] : NULL;
	taken = s && s->ns <= ns;
	if (taken) {
		count = s->word_count;
		taken = array_reserve(&c->copy, &c->copy_capacity, count + 1);
		c->begin++;
		c->word_begin += count;
	}
	if (taken) {
		memcpy(c->copy, c->words + c->word_begin - count, count * 8ul);
		*ret = (struct taken_sample){s->ns,   s->thread, s->start_pc,
					     c->copy, count,     s->no_goroutine};
	}
	pthread_mutex_unlock(&c->lock);
	return taken;
}

bool cpu_samples_name_c(struct cpu_samples *c, const struct taken_sample *sample,
			struct c_functions *ret)
{
	bool added = true;

	pthread_mutex_lock(&c->lock);
	for (uint32_t i = 0; added && i < sample->word_count; i++) {
		const char *file,
			*function = c_functions_find(&c->c_functions, sample->words[i], &file);

		if (function)
			added = c_functions_add(ret, sample->words[i], function, file);
	}
	pthread_mutex_unlock(&c->lock);
	return added;
}

void cpu_samples_stop(struct cpu_samples *c)
{
	if (!c->started)
		return;
	pthread_mutex_lock(&c->lock);
	c->quit = true;
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
	pthread_join(c->thread, NULL);
	c->started = false;
	c->stats.lost += oncpu_sampler_stats(c->sampler).lost;
	oncpu_sampler_close(take_ptr(c->sampler));
}

void cpu_samples_stats(struct cpu_samples *c, struct cpu_samples_stats *ret)
{
	pthread_mutex_lock(&c->lock);
	*ret = c->stats;
	pthread_mutex_unlock(&c->lock);
}

void cpu_samples_close(struct cpu_samples *c)
{
	if (!c)
		return;
	cpu_samples_stop(c);
	oncpu_sampler_close(c->sampler);
	stacks_destroy(c->stacks);
	map_release(&c->known);
	c_functions_release(&c->c_functions);
	free(c->fresh);
	free(c->waiting);
	free(c->words);
	free(c->copy);
	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->lock);
	free(c);
}
