#include "collect/collector.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/memory_room.h"
#include "collect/pace.h"
#include "collect/precedence.h"
#include "collect/unread.h"

/* Between two looks. The aim is that so much has come meanwhile: little enough to be in the CPU's
 * cache still, and far less than a ring holds; but when nothing has come, it may begin at any
 * moment, as fast as it can. */
#define LEAST_WAIT_NS 1000000ull
#define MOST_WAIT_NS 10000000ull
#define AIM_BYTES (256u << 10)
/* Less than half of AIM_BYTES waits at most this long before it is fetched. */
#define MOST_UNTAKEN_NS 40000000ull
#define COUNTERS_NS 10000000ull /* the interval at which the counters are read */
/* Limit of the records that are searched for labels in one look, which takes 1 ms; a set counts as
 * more. */
#define MOST_UNREAD_BYTES (1u << 20)
#define UNREAD_COST 2048
#define CHECK_NS 100000000ull /* how often we look whether the target is there */
/* The share of the backlog's room in which records wait for an idle CPU. */
#define MAY_WAIT 0.5
/* Until we ask again whether there is one. */
#define BUSY_NS 10000000

struct collector {
	struct collector_options options;
	struct rings *rings;
	struct counters counters;
	struct ticks ticks;
	struct pace pace; /* of the decoding thread */
	uint64_t wait_ns;
	uint64_t looked_ns; /* the time of the last look at how much waits */
	uint64_t waiting;   /* bytes in the fullest ring; 0 when they were taken */
	uint64_t collected_ns;
	bool woken; /* the last wait ended early: records are to be fetched at once */
	uint64_t counted_ns;
	uint64_t checked_ns;
	atomic_uint_fast64_t absences;
	struct unread unread;         /* sets of labels that the agent could not read */
	bool was_unread;              /* unread labels came since the agent's ranges were updated */
	struct precedence precedence; /* of the thread that collects */
	atomic_bool goes_first;
	sigset_t others; /* signals that the decoding thread leaves to others */
	pthread_t thread;
	bool runs;
	int wake;
	atomic_bool urgent;
	atomic_bool ended; /* the agent writes no more */
	atomic_bool quit;
};

/* ---- one look ---- */

static void check_target(struct collector *c)
{
	uint64_t now = clock_now();

	if (now - c->checked_ns < CHECK_NS || atomic_load(&c->ended))
		return;
	c->checked_ns = now;
	if (error_dropped(target_check(c->options.t)))
		atomic_store(&c->ended, true);
}

/* Measures how much waits, and sets the time of the next look by how much came since the last. */
static void look(struct collector *c)
{
	uint64_t now = clock_now(), bytes = rings_waiting(c->rings), wait = MOST_WAIT_NS;
	uint64_t came = bytes > c->waiting ? bytes - c->waiting : 0;

	if (came)
		wait = (double)(now - c->looked_ns) * AIM_BYTES / (double)came;
	if (wait > MOST_WAIT_NS)
		wait = MOST_WAIT_NS;
	c->wait_ns = wait > LEAST_WAIT_NS ? wait : LEAST_WAIT_NS;
	c->looked_ns = now;
	c->waiting = bytes;
}

/* The unread labels of one slot, in this block. False: enough for one look. */
static bool read_unread_in(struct collector *c, const struct block *block, uint32_t slot,
			   struct unread_set **list, size_t *left)
{
	for (uint32_t i = 0; i < block->piece_count && *left; i++) {
		const struct piece *p = &block->pieces[i];
		size_t cost = p->slot == slot ? p->size : 0;

		if (cost)
			cost += unread_read(&c->unread, p, list) * UNREAD_COST;
		*left -= cost < *left ? cost : *left;
	}
	return *left;
}

/* Labels that the agent could not read are read at once. */
static void read_unread(struct collector *c, struct block *first)
{
	size_t left = MOST_UNREAD_BYTES;

	for (uint32_t slot = 0; slot < c->unread.slots; slot++) {
		const struct block *block = first;

		if (!unread_is_new(&c->unread, slot, rings_unread(c->rings, slot)))
			continue;
		c->was_unread = true;
		while (block && read_unread_in(c, block, slot, &first->about.unread, &left))
			block = block->next;
	}
}

/* They lie where the heap has grown to: from now on the agent may read that too. */
static void check_unread(struct collector *c)
{
	if (c->was_unread && !atomic_load(&c->ended))
		error_destroy(inject_update_readable(c->options.injection));
	c->was_unread = false;
}

static void describe(struct collector *c, struct collection *about, bool ended)
{
	about->last = false;
	about->unread = NULL;
	about->ns = clock_now();
	about->counter_count = 0;
	if (!ended && about->ns - c->counted_ns >= COUNTERS_NS) {
		about->counter_count =
			counters_read(&c->counters, c->options.t, c->options.lay, about->counters);
		c->counted_ns = about->ns;
	}
	about->clock = ticks_measure();
	ticks_add(&c->ticks, &about->clock);
}

/* True: that was the last one. */
static bool collect(struct collector *c)
{
	struct block *first = backlog_get(c->options.backlog);
	bool ended, last;

	if (inject_beat(c->options.injection))
		atomic_fetch_add(&c->absences, 1);
	check_target(c);
	ended = atomic_load(&c->ended);
	if (!first)
		return false;
	describe(c, &first->about, ended);
	last = rings_collect(c->rings, c->options.backlog, first, ticks_now(),
			     ticks_of_ns(&c->ticks, COLLECTOR_MARGIN_NS), ended) &&
	       ended;
	first->about.last = last;
	first->about.taken_ns = clock_now();
	read_unread(c, first);
	c->collected_ns = first->about.ns;
	c->waiting = 0;
	backlog_put(c->options.backlog, first);
	backlog_trim(c->options.backlog);
	check_unread(c);
	return last;
}

/* ---- the decoder's pace ---- */

/* A signal waits for the decoding thread, which may be waiting for a CPU. A signal that the thread
 * blocks is for another thread: sigwait(), or a signalfd. */
static bool is_signalled(const struct collector *c)
{
	sigset_t pending;

	if (sigpending(&pending))
		return false;
	for (int number = 1; number < NSIG; number++)
		if (sigismember(&pending, number) > 0 && !sigismember(&c->others, number))
			return true;
	return false;
}

static bool is_wanted(const struct collector *c)
{
	return atomic_load(&c->ended) || atomic_load(c->options.cancel) ||
	       clock_now() >= c->options.end_ns || is_signalled(c);
}

/* More waits, or for longer, than may. */
static bool waits_too_much(const struct collector *c)
{
	const struct backlog *b = c->options.backlog;
	const struct collector_limits *limits = &c->options.limits;

	return backlog_fill(b) > MAY_WAIT || (limits->bytes && backlog_bytes(b) > limits->bytes) ||
	       (limits->ns && backlog_age(b) > limits->ns);
}

static bool is_urgent(const struct collector *c)
{
	return is_wanted(c) || waits_too_much(c);
}

static void set_pace(struct collector *c)
{
	bool urgent = is_urgent(c);

	atomic_store(&c->urgent, urgent);
	if (urgent)
		pace_raise(&c->pace);
}

void collector_lower_priority(struct collector *c)
{
	if (!atomic_load(&c->urgent))
		pace_lower(&c->pace);
	/* Also when it has just become urgent. */
	if (atomic_load(&c->urgent))
		pace_raise(&c->pace);
}

bool collector_lets_go_on(struct collector *c)
{
	struct timespec time = {.tv_nsec = BUSY_NS};

	if (atomic_load(&c->urgent) || pace_is_free(&c->pace))
		return true;
	nanosleep(&time, NULL);
	return false;
}

/* ---- the thread ---- */

static void wait_a_while(struct collector *c)
{
	uint64_t now = clock_now(), end = c->options.end_ns;
	uint64_t ns = end > now && end - now < c->wait_ns ? end - now : c->wait_ns;
	struct timespec time = {.tv_nsec = (long)ns};
	struct pollfd fd = {.fd = c->wake, .events = POLLIN};
	eventfd_t count;

	c->woken = ppoll(&fd, 1, &time, NULL) > 0;
	if (c->woken)
		eventfd_read(c->wake, &count);
}

static bool is_due(const struct collector *c)
{
	return c->woken || c->waiting >= AIM_BYTES / 2 ||
	       c->looked_ns - c->collected_ns >= MOST_UNTAKEN_NS || atomic_load(&c->ended);
}

static void *work(void *arg)
{
	struct collector *c = arg;
	bool last = false;

	precedence_take(&c->precedence);
	atomic_store(&c->goes_first, c->precedence.may);
	for (;;) {
		look(c);
		if (is_due(c))
			last = collect(c);
		precedence_check(&c->precedence);
		set_pace(c);
		if (last || atomic_load(&c->quit))
			return NULL;
		wait_a_while(c);
	}
}

static struct error *must_check start_thread(struct collector *c)
{
	sigset_t all, mask;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &mask);
	c->others = mask;
	err = pthread_create(&c->thread, NULL, work, c);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	if (err)
		return error_errno(ERROR_FAILED, err, "cannot start a thread");
	c->runs = true;
	return NULL;
}

struct error *collector_start(const struct collector_options *options, struct collector **ret)
{
	_cleanup_collector_ struct collector *c = calloc(1, sizeof(*c));
	const struct agent_shared *layout = inject_layout(options->injection);
	struct error *err;

	if (!c)
		return &error_no_memory;
	c->options = *options;
	c->ticks = *options->ticks;
	c->looked_ns = clock_now();
	c->counters = *options->counters;
	c->pace = *options->pace;
	c->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (c->wake < 0)
		return error_errno(ERROR_FAILED, errno, "cannot wait for events");
	err = rings_create(inject_shared(options->injection), layout, options->injection,
			   memory_room(), &c->rings);
	if (!err && !unread_init(&c->unread, options->t, options->lay, layout->slots))
		err = &error_no_memory;
	if (!err)
		err = start_thread(c);
	if (err)
		return err;
	*ret = take_ptr(c);
	return NULL;
}

void collector_destroy(struct collector *c)
{
	if (!c)
		return;
	if (c->runs) {
		atomic_store(&c->quit, true);
		eventfd_write(c->wake, 1);
		pthread_join(c->thread, NULL);
	}
	pace_raise(&c->pace);
	pace_release(&c->pace);
	if (c->wake >= 0)
		close(c->wake);
	rings_destroy(c->rings);
	unread_deinit(&c->unread);
	free(c);
}

void collector_flush_now(struct collector *c)
{
	pace_raise(&c->pace);
	eventfd_write(c->wake, 1);
}

void collector_finish(struct collector *c)
{
	atomic_store(&c->ended, true);
	collector_flush_now(c);
}

bool collector_goes_first(const struct collector *c)
{
	return atomic_load(&c->goes_first);
}

uint64_t collector_absences(const struct collector *c)
{
	return atomic_load(&c->absences);
}

void collector_rings_stats(const struct collector *c, struct rings_stats *ret)
{
	rings_stats(c->rings, ret);
}
