#include "trace/tracer.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "inject/inject.h"
#include "trace/counters.h"
#include "trace/decode.h"
#include "trace/drain.h"
#include "trace/snapshot.h"
#include "trace/ticks.h"

#define RING_BYTES (4u << 20)
/* Between two looks: long enough not to displace the target's threads often, short enough for the
 * rings to hold what comes. */
#define LEAST_WAIT_NS 10000000ull
#define MOST_WAIT_NS 40000000ull
/* Records that others may be writing just now are left for the next look. */
#define MARGIN_NS 100000ull
/* Events taken at once; what is left comes without a wait. */
#define BATCH_EVENTS 200000
#define CHECK_NS 100000000ull /* how often we look whether the target is there */
#define NEVER UINT64_MAX
/* Labels from before are read in between, for so long at once and in all. */
#define LABELS_SLICE_NS 10000000ull
#define LABELS_NS 3000000000ull
/* What we take in passing must not wait for those whom we watch: while they wait for us, they lose
 * records. */
#define PRIORITY (-10)

struct tracer {
	struct target *t;
	const struct golayout *lay;
	struct injection *injection;
	struct drain *drain;
	struct decoder *decoder;
	struct ticks ticks;
	struct counters counters;
	struct trace_events batch;
	struct trace_events sampled; /* of the counters, not yet given out */
	size_t sampled_taken;
	struct snapshot snapshot;
	uint64_t snapshot_ns; /* when it was read; 0 once it was given out */
	bool labels_wait;     /* those of its goroutines are still to be read */
	uint64_t start_ns;
	uint64_t last_ns; /* time of the last event */
	uint64_t wait_ns;
	uint64_t checked_ns;
	uint64_t unread; /* sets of labels that the agent could not read, so far */
	uint64_t events;
	int priority; /* ours before */
	bool more;    /* there was more than one batch holds */
	bool ended;   /* nobody writes any more */
	bool gone;    /* the target is */
};

static struct error *must_check open_all(struct tracer *tr, const struct image *img,
					 const struct tracer_options *options)
{
	struct inject_options in = {.depth = options->stack_depth > TRACER_MAX_DEPTH
						     ? TRACER_MAX_DEPTH
						     : options->stack_depth,
				    .ring_bytes = RING_BYTES,
				    .root = options->root};
	struct error *err;

	while (options->buffer_bytes && in.ring_bytes > options->buffer_bytes &&
	       in.ring_bytes > 4 * AGENT_CHUNK_BYTES)
		in.ring_bytes /= 2;
	while (in.ring_bytes < options->buffer_bytes && in.ring_bytes < 1u << 30)
		in.ring_bytes *= 2;
	ticks_measure(&tr->ticks);
	err = inject_attach(tr->t, img, tr->lay, &in, &tr->injection);
	if (err)
		return err;
	tr->start_ns = inject_attached_at(tr->injection);
	err = drain_create(inject_shared(tr->injection), inject_layout(tr->injection), &tr->drain);
	if (!err)
		err = decoder_create(tr->t, img, tr->lay, inject_layout(tr->injection), tr->drain,
				     &tr->decoder);
	if (!err)
		err = snapshot_read(tr->t, tr->lay, &tr->snapshot);
	return err;
}

struct error *tracer_open(struct target *t, const struct image *img, const struct golayout *lay,
			  const struct tracer_options *options, struct tracer **ret)
{
	_cleanup_tracer_ struct tracer *tr = calloc(1, sizeof(*tr));
	struct error *err;

	if (!tr)
		return &error_no_memory;
	tr->t = t;
	tr->lay = lay;
	tr->priority = getpriority(PRIO_PROCESS, 0);
	tr->wait_ns = LEAST_WAIT_NS;
	counters_init(&tr->counters, img, lay);
	if (tr->priority > PRIORITY)
		setpriority(PRIO_PROCESS, 0, PRIORITY); /* where it is permitted */
	err = open_all(tr, img, options);
	if (err)
		return err;
	tr->snapshot_ns = clock_now() - tr->start_ns;
	tr->labels_wait = true;
	*ret = take_ptr(tr);
	return NULL;
}

/* ---- waiting ---- */

static void pause_for(uint64_t ns)
{
	struct timespec time = {.tv_nsec = (long)ns};

	nanosleep(&time, NULL); /* less when there is a signal: as it should be */
}

/* Half full, at the next look, is what we aim at. */
static void adapt_wait(struct tracer *tr)
{
	double fill = drain_fill(tr->drain);

	if (fill > 0.25)
		tr->wait_ns = LEAST_WAIT_NS;
	else if (fill < 0.05 && tr->wait_ns < MOST_WAIT_NS)
		tr->wait_ns += LEAST_WAIT_NS;
}

static void check_target(struct tracer *tr)
{
	uint64_t now = clock_now();

	if (now - tr->checked_ns < CHECK_NS)
		return;
	tr->checked_ns = now;
	if (error_dropped(target_check(tr->t)))
		tr->ended = tr->gone = true;
}

/* ---- one batch ---- */

static struct error *must_check append(struct trace_events *events, const struct trace_event *ev)
{
	if (!array_reserve(&events->items, &events->capacity, events->count + 1))
		return &error_no_memory;
	events->items[events->count++] = *ev;
	return NULL;
}

static uint64_t event_ns(struct tracer *tr, uint64_t tick)
{
	uint64_t ns = ticks_to_ns(&tr->ticks, tick), start = tr->start_ns;

	ns = ns > start ? ns - start : 1;
	if (ns < tr->last_ns)
		ns = tr->last_ns;
	tr->last_ns = ns;
	return ns;
}

static struct error *must_check sample_counters(struct tracer *tr)
{
	struct trace_event events[COUNTERS_MAX_EVENTS];
	uint64_t ns = clock_now() - tr->start_ns;
	size_t n = counters_read(&tr->counters, tr->t, tr->lay, events);
	struct error *err = NULL;

	if (tr->sampled_taken == tr->sampled.count)
		tr->sampled_taken = tr->sampled.count = 0;
	for (size_t i = 0; !err && i < n; i++) {
		events[i].ns = ns;
		err = append(&tr->sampled, &events[i]);
	}
	return err;
}

/* The counters that were read before this moment. */
static struct error *must_check add_sampled(struct tracer *tr, uint64_t ns)
{
	struct error *err = NULL;

	while (!err && tr->sampled_taken < tr->sampled.count &&
	       tr->sampled.items[tr->sampled_taken].ns <= ns)
		err = append(&tr->batch, &tr->sampled.items[tr->sampled_taken++]);
	return err;
}

static struct error *must_check add_record(struct tracer *tr, const struct drain_record *r)
{
	struct trace_event events[DECODE_MAX_EVENTS];
	uint64_t ns = event_ns(tr, r->tick);
	size_t count;
	struct error *err = add_sampled(tr, ns);

	if (!err)
		err = decoder_events(tr->decoder, r, ns, events, &count);
	for (size_t i = 0; !err && i < count; i++)
		err = append(&tr->batch, &events[i]);
	return err;
}

static struct error *must_check fill_batch(struct tracer *tr)
{
	size_t most = tr->batch.count + BATCH_EVENTS;
	struct drain_record r;
	struct error *err = NULL;

	tr->more = true;
	while (!err && tr->batch.count < most) {
		if (!drain_next(tr->drain, &r)) {
			tr->more = false;
			break;
		}
		err = add_record(tr, &r);
	}
	if (!err && !tr->more)
		err = add_sampled(tr, tr->ended ? NEVER : tr->last_ns);
	return err;
}

/* Meanwhile the rings fill up, and whoever is looked at may change: so events are taken between
 * slices, until those are there that happened before the last was read. */
static struct error *must_check read_labels(struct tracer *tr)
{
	struct labels *labels = decoder_labels(tr->decoder);
	uint64_t since = clock_now() - tr->start_ns;
	bool done = false;
	struct error *err = NULL;

	if (!tr->gone && !tr->more && since < LABELS_NS)
		err = snapshot_read_labels(&tr->snapshot, labels, LABELS_SLICE_NS, &done);
	else
		snapshot_forgo_labels(&tr->snapshot, labels);
	tr->labels_wait = !err && tr->snapshot.labelled < tr->snapshot.count;
	tr->snapshot_ns = clock_now() - tr->start_ns;
	return err;
}

/* Before the first events go out, they tell what was before them; wait until all of those are there
 * that happened while the goroutines were read. */
static struct error *must_check add_states(struct tracer *tr, bool *ret_wait)
{
	struct trace_events all = {0};
	uint64_t seen = ticks_to_ns(&tr->ticks, drain_watermark(tr->drain));
	struct error *err;

	if (tr->labels_wait) {
		*ret_wait = true;
		return read_labels(tr);
	}
	*ret_wait = tr->more || (!tr->ended && seen < tr->start_ns + tr->snapshot_ns);
	if (*ret_wait)
		return NULL;
	err = snapshot_events(&tr->snapshot, &tr->batch, &all);
	for (size_t i = 0; !err && i < tr->batch.count; i++)
		err = append(&all, &tr->batch.items[i]);
	free(tr->batch.items);
	tr->batch = all;
	tr->snapshot_ns = 0;
	snapshot_release(&tr->snapshot);
	return err;
}

/* Labels lie where the heap has grown to: from now on the agent may read that too. */
static void check_unread(struct tracer *tr)
{
	struct drain_stats drained;

	drain_stats(tr->drain, &drained);
	if (drained.labels_unread == tr->unread || tr->ended)
		return;
	tr->unread = drained.labels_unread;
	error_destroy(inject_update_readable(tr->injection));
}

static struct error *must_check collect(struct tracer *tr)
{
	struct error *err = NULL;

	if (!tr->more) {
		check_target(tr);
		if (!tr->ended)
			err = sample_counters(tr);
		ticks_measure(&tr->ticks);
		drain_collect(tr->drain, ticks_now(), ticks_of_ns(&tr->ticks, MARGIN_NS),
			      tr->ended);
		adapt_wait(tr);
		check_unread(tr);
	}
	return err ? err : fill_batch(tr);
}

struct error *tracer_next(struct tracer *tr, struct trace_batch *ret)
{
	bool wait = false;
	struct error *err;

	tr->batch.count = 0;
	do {
		if (!tr->more && !tr->ended && !tr->labels_wait)
			pause_for(tr->wait_ns);
		err = collect(tr);
		if (!err && tr->snapshot_ns)
			err = add_states(tr, &wait);
	} while (!err && wait);
	if (err)
		return err;
	tr->events += tr->batch.count;
	*ret = (struct trace_batch){tr->batch.items, tr->batch.count, tr->ended && !tr->more};
	return NULL;
}

struct error *tracer_stop(struct tracer *tr)
{
	struct error *err = inject_detach(tr->injection);

	tr->ended = true;
	return err;
}

void tracer_close(struct tracer *tr)
{
	if (!tr)
		return;
	setpriority(PRIO_PROCESS, 0, tr->priority);
	inject_destroy(tr->injection);
	drain_destroy(tr->drain);
	decoder_destroy(tr->decoder);
	snapshot_release(&tr->snapshot);
	free(tr->batch.items);
	free(tr->sampled.items);
	free(tr);
}

void tracer_stats(const struct tracer *tr, struct tracer_stats *ret)
{
	struct drain_stats drained;

	drain_stats(tr->drain, &drained);
	*ret = (struct tracer_stats){
		.events = tr->events,
		.lost = drained.lost + inject_lost(tr->injection) + drained.corrupt,
		.stacks = stacks_count(decoder_stacks(tr->decoder)),
		.stacks_lost = drained.stacks_lost,
		.labels_cut = decoder_labels(tr->decoder)->cut,
		.labels_lost = decoder_labels(tr->decoder)->dropped,
		.bytes = drained.bytes,
		.attach_pause_ns = inject_attach_ns(tr->injection),
		.detach_pause_ns = inject_detach_ns(tr->injection),
	};
}

const struct strbuf *tracer_left_out(const struct tracer *tr)
{
	return inject_left_out(tr->injection);
}

uint64_t tracer_start(const struct tracer *tr)
{
	return tr->start_ns;
}

const struct intern *tracer_strings(const struct tracer *tr)
{
	return decoder_strings(tr->decoder);
}

const struct stacks *tracer_stacks(const struct tracer *tr)
{
	return decoder_stacks(tr->decoder);
}
