#include "collect/tracer.h"

#include <stdlib.h>
#include <sys/resource.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/memory_room.h"
#include "base/permit.h"
#include "collect/backlog.h"
#include "collect/collector.h"
#include "collect/counters.h"
#include "collect/decode.h"
#include "collect/drain.h"
#include "collect/living.h"
#include "collect/other_events.h"
#include "collect/precedence.h"
#include "collect/stacks_at_start.h"
#include "collect/states_at_start.h"
#include "collect/ticks.h"
#include "hooks/injection.h"

/* Only the unread part takes memory: 0.1 s at the highest rate of a CPU. */
#define RING_BYTES (16u << 20)
/* Limit of memory for undecoded records: less if a file takes them too, and at most a quarter of
 * what the cgroup has left. On machines with very many CPUs it is larger, so that each has some. */
#define BACKLOG_BYTES (128u << 20)
#define BACKLOG_BYTES_BESIDE_FILE (64u << 20)
#define BLOCKS_OF_SLOT 4
/* Events given at once: few enough to stay in the CPU's cache, and to be done in 0.2 ms. */
#define BATCH_EVENTS 2048
/* How long we wait for a collection before there is a batch without events. */
#define WAIT_NS 40000000ull
#define NEVER UINT64_MAX
/* Reading the goroutines of the beginning takes so long at most. */
#define SNAPSHOT_NS 3000000000ull
/* Labels from before are read for so long at most, and as long as the backlog is not fuller. */
#define LABELS_SLICE_NS 10000000ull
#define LABELS_NS 3000000000ull
#define LABELS_FILL 0.25
/* The stacks of those that do not run are read behind them, for so long at most. */
#define STACKS_NS 3000000000ull
/* After losses the live goroutines are listed, so often at most, for so long at once. */
#define RECONCILE_NS 2000000000ull
#define LIVING_SLICE_NS 5000000ull
/* Events that wait for the states of the beginning: 128 MB. */
#define MOST_BEFORE_STATES (1u << 21)
/* Distinct stacks of CPU samples that are kept: 4 MB. Their number has no end, because they differ
 * by instructions. */
#define MANY_CPU_STACKS (1u << 14)
/* Until the states of the beginning are read, and for detaching; in between it is the collector's.
 */
#define PRIORITY (-10)

struct tracer {
	struct target *t;
	const struct golayout *lay;
	struct injection *injection;
	struct backlog *backlog;
	struct collector *collector;
	struct drain *drain;
	struct decoder *decoder;
	struct ticks ticks;
	struct trace_events batch;
	struct other_events others;
	struct snapshot snapshot;
	uint64_t snapshot_ns; /* when it was read; 0 once it was delivered */
	bool labels_wait;     /* those of its goroutines are still to be read */
	bool stacks_wait;     /* likewise; once that has begun in: */
	struct stacks_at_start *at_start;
	const struct image *img;
	uint64_t start_ns;
	uint64_t last_ns;      /* time of the last event */
	uint64_t collected_ns; /* when the collection that is being decoded was fetched */
	uint64_t taken_ns;     /* shortly after the last fetch */
	uint64_t until_ns;     /* all before this was delivered */
	uint64_t wanted_ns;    /* all before this is wanted soon */
	uint64_t events;
	struct living living;    /* listed since records were lost */
	uint64_t living_read_ns; /* when all were read; 0: they are not */
	uint64_t lost;           /* records, when they were read last */
	uint64_t reconciled_ns;  /* and when that was */
	int priority;            /* ours before */
	bool may;                /* change it */
	bool more;               /* there was more than one batch holds */
	bool last;               /* there are no more collections */
	bool stopped;            /* the agent was taken out */
};

static struct error *must_check attach(struct tracer *tr, const struct image *img,
				       const struct tracer_options *options)
{
	struct inject_options in = {.depth = options->stack_depth > TRACER_MAX_DEPTH
						     ? TRACER_MAX_DEPTH
						     : options->stack_depth,
				    .ring_bytes = RING_BYTES,
				    .root = options->root,
				    .no_names = options->no_names,
				    .allocations = options->allocations,
				    .surgeon = options->surgeon,
				    .stop = options->stop};

	return inject_attach(tr->t, img, tr->lay, &in, &tr->injection);
}

static size_t backlog_blocks(const struct tracer *tr, bool has_file)
{
	size_t least = BLOCKS_OF_SLOT * (size_t)inject_layout(tr->injection)->slots;
	uint64_t room = memory_room() / 4;
	uint64_t most = has_file ? BACKLOG_BYTES_BESIDE_FILE : BACKLOG_BYTES;
	size_t blocks = (room < most ? room : most) / sizeof(struct block);

	return blocks > least ? blocks : least;
}

static struct error *must_check make_backlog(struct tracer *tr,
					     const struct tracer_options *options)
{
	bool has_file = options->spill_bytes;
	struct error *err = backlog_create(backlog_blocks(tr, has_file), &tr->backlog);

	if (err || !has_file)
		return err;
	return backlog_use_file(tr->backlog, options->spill, options->spill_bytes);
}

static struct error *must_check start_collector(struct tracer *tr, const struct counters *counters,
						const struct pace *pace,
						const struct tracer_options *options)
{
	struct collector_options c = {
		.t = tr->t,
		.lay = tr->lay,
		.injection = tr->injection,
		.backlog = tr->backlog,
		.limits = options->limits,
		.cancel = options->cancel,
		.counters = counters,
		.ticks = &tr->ticks,
		.pace = pace,
		.end_ns = options->duration_ns ? tr->start_ns + options->duration_ns : NEVER,
	};

	return collector_start(&c, &tr->collector);
}

/* Until the collector runs, nothing fetches the agent's records. */
static struct error *must_check begin_collecting(struct tracer *tr, const struct counters *counters,
						 const struct tracer_options *options)
{
	struct precedence precedence;
	struct pace pace;
	struct error *err = make_backlog(tr, options);

	if (err)
		return err;
	pace_init(&pace);
	precedence_take(&precedence);
	err = start_collector(tr, counters, &pace, options);
	precedence_give_back(&precedence);
	return err;
}

static struct error *must_check open_all(struct tracer *tr, const struct image *img,
					 const struct tracer_options *options)
{
	struct tick_pair first = ticks_measure();
	struct stack_cache cache;
	struct counters counters;
	struct error *err;

	ticks_add(&tr->ticks, &first);
	counters_init(&counters, img, tr->lay);
	err = attach(tr, img, options);
	if (err)
		return err;
	tr->start_ns = tr->others.start_ns = inject_attached_at(tr->injection);
	cache = (struct stack_cache){inject_shared(tr->injection), inject_layout(tr->injection)};
	err = begin_collecting(tr, &counters, options);
	if (!err)
		err = drain_create(cache.layout, tr->backlog, &tr->drain);
	if (!err)
		err = decoder_create(tr->t, img, tr->lay, &cache, &tr->decoder);
	return err ? err : snapshot_read(tr->t, tr->lay, SNAPSHOT_NS, &tr->snapshot);
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
	tr->img = img;
	other_events_init(&tr->others, target_pid(t));
	tr->priority = getpriority(PRIO_PROCESS, 0);
	tr->may = permitted(PERMIT_PRIORITY);
	if (tr->may && tr->priority > PRIORITY)
		setpriority(PRIO_PROCESS, 0, PRIORITY); /* where it is permitted */
	err = open_all(tr, img, options);
	if (!err)
		err = other_events_open_cpu(&tr->others, t, img, lay, options->cpu_hz,
					    tr->priority);
	/* Now: on a busy machine nothing is decoded until the end. */
	if (!err)
		err = other_events_read_machine(&tr->others, false);
	if (err)
		return err;
	tr->snapshot_ns = clock_now() - tr->start_ns;
	tr->labels_wait = true;
	tr->stacks_wait = options->stack_depth;
	*ret = take_ptr(tr);
	return NULL;
}

/* ---- one batch ---- */

static uint64_t event_ns(struct tracer *tr, uint64_t tick)
{
	uint64_t ns = ticks_to_ns(&tr->ticks, tick), start = tr->start_ns;

	ns = ns > start ? ns - start : 1;
	/* Times are the target's too: none is before the last one, or still to come. */
	if (ns > tr->taken_ns)
		ns = tr->taken_ns;
	if (ns < tr->last_ns)
		ns = tr->last_ns;
	tr->last_ns = ns;
	return ns;
}

/* The events from elsewhere up to this moment. */
static struct error *must_check add_before(struct tracer *tr, uint64_t ns)
{
	struct error *err = other_events_before(&tr->others, ns, &tr->batch);

	if (tr->others.given_ns > tr->last_ns)
		tr->last_ns = tr->others.given_ns;
	return err;
}

static struct error *must_check add_record(struct tracer *tr, const struct drain_record *r)
{
	struct trace_events *batch = &tr->batch;
	uint64_t ns = event_ns(tr, r->tick);
	size_t count = 0;
	struct error *err = add_before(tr, ns);

	tr->others.given_ns = ns;
	if (!err && batch->capacity < batch->count + DECODE_MAX_EVENTS &&
	    !array_reserve(&batch->items, &batch->capacity, batch->count + DECODE_MAX_EVENTS))
		err = &error_no_memory;
	if (!err)
		err = decoder_events(tr->decoder, r, ns, batch->items + batch->count, &count);
	batch->count += count;
	return err;
}

/* No record that is still to come is from before this time. */
static uint64_t certain_ns(const struct tracer *tr)
{
	uint64_t seen = ticks_to_ns(&tr->ticks, drain_watermark(tr->drain));
	uint64_t ns = seen > tr->start_ns ? seen - tr->start_ns : 0;

	if (tr->last)
		return NEVER;
	return ns < tr->until_ns ? ns : tr->until_ns;
}

static struct error *must_check fill_batch(struct tracer *tr)
{
	size_t most = tr->batch.count + BATCH_EVENTS;
	const struct drain_record *r;
	struct error *err = NULL;

	tr->more = true;
	while (!err && tr->batch.count < most) {
		r = drain_next(tr->drain);
		if (!r) {
			tr->more = false;
			break;
		}
		err = add_record(tr, r);
	}
	if (err || tr->more)
		return err;
	tr->until_ns = tr->last ? NEVER : tr->collected_ns;
	return add_before(tr, certain_ns(tr));
}

/* Meanwhile the backlog grows, and the goroutines may change: events from before the last read are
 * applied before any is delivered. */
static struct error *must_check read_labels(struct tracer *tr)
{
	struct labels *labels = decoder_labels(tr->decoder);
	struct error *err = NULL;
	bool done = false;

	if (clock_now() - tr->start_ns < LABELS_NS && backlog_fill(tr->backlog) < LABELS_FILL)
		err = snapshot_read_labels(&tr->snapshot, labels, LABELS_SLICE_NS, &done);
	else
		done = true;
	if (err && err->code == ERROR_GONE) {
		error_destroy(err);
		err = NULL;
		done = true;
	}
	if (err || !done)
		return err;
	snapshot_forgo_labels(&tr->snapshot, labels);
	tr->labels_wait = false;
	tr->snapshot_ns = clock_now() - tr->start_ns;
	return NULL;
}

static struct error *must_check read_some_stacks(struct tracer *tr, bool *ret_done)
{
	struct error *err = NULL;

	if (!tr->at_start)
		err = stacks_at_start_open(tr->t, tr->img, tr->lay, tr->decoder, &tr->snapshot,
					   tr->start_ns, &tr->at_start);
	return err ? err : stacks_at_start_read(tr->at_start, LABELS_SLICE_NS, ret_done);
}

/* As of labels. A trace goes on without them. */
static struct error *must_check read_stacks(struct tracer *tr)
{
	uint64_t now = clock_now() - tr->start_ns;
	struct error *err = NULL;
	bool done = now - tr->snapshot_ns > STACKS_NS || backlog_fill(tr->backlog) >= LABELS_FILL;

	if (!done)
		err = read_some_stacks(tr, &done);
	if (err && err->code == ERROR_NO_MEMORY)
		return err;
	if (!error_dropped(err) && !done)
		return NULL;
	tr->stacks_wait = false;
	tr->snapshot_ns = clock_now() - tr->start_ns;
	stacks_at_start_close(take_ptr(tr->at_start));
	return NULL;
}

/* All that happened while the goroutines were read is there, or as much as there is room for. */
static bool states_are_seen(const struct tracer *tr)
{
	uint64_t seen = ticks_to_ns(&tr->ticks, drain_watermark(tr->drain));

	if (tr->batch.count > MOST_BEFORE_STATES || tr->last_ns > tr->snapshot_ns)
		return true;
	return !tr->more && (tr->last || seen >= tr->start_ns + tr->snapshot_ns);
}

/* The first events define the states before them. */
static struct error *must_check add_states(struct tracer *tr)
{
	struct trace_events all = {0};
	struct error *err;

	err = snapshot_events(&tr->snapshot, &tr->batch, &all);
	for (size_t i = 0; !err && i < tr->batch.count; i++)
		err = trace_events_add(&all, &tr->batch.items[i]);
	free(tr->batch.items);
	tr->batch = all;
	tr->snapshot_ns = 0;
	snapshot_release(&tr->snapshot);
	return err;
}

/* As long as nothing is wanted of us, the target goes first; reading it, we do not. */
static bool target_goes_first(const struct tracer *tr)
{
	return !tr->snapshot_ns && tr->until_ns >= tr->wanted_ns;
}

static void set_pace(struct tracer *tr)
{
	if (tr->may && !tr->snapshot_ns && getpriority(PRIO_PROCESS, 0) != tr->priority)
		setpriority(PRIO_PROCESS, 0, tr->priority);
	if (target_goes_first(tr))
		collector_lower_priority(tr->collector);
}

/* The next collection, if there is one by now. */
static struct error *must_check take_collection(struct tracer *tr)
{
	struct collection *about;
	struct block *first;
	struct error *err = backlog_take(tr->backlog, &first);

	if (err || !first)
		return err;
	about = &first->about;
	ticks_add(&tr->ticks, &about->clock);
	tr->collected_ns = about->ns - tr->start_ns - COLLECTOR_MARGIN_NS;
	tr->taken_ns = about->taken_ns - tr->start_ns;
	tr->last = about->last;
	labels_add_read(decoder_labels(tr->decoder), about->unread);
	err = other_events_add(&tr->others, about);
	drain_add(tr->drain, first);
	return err;
}

/* While nothing is urgent, collected records wait for a CPU that is free. */
static struct error *must_check take(struct tracer *tr)
{
	struct error *err = NULL;

	set_pace(tr);
	if (!tr->more && !tr->last)
		backlog_wait(tr->backlog, WAIT_NS);
	if (target_goes_first(tr) && !collector_lets_go_on(tr->collector))
		return NULL;
	if (!tr->more && !tr->last)
		err = take_collection(tr);
	return err ? err : fill_batch(tr);
}

/* Nothing is delivered before the states are; the events so far stay in the batch. */
static struct error *must_check begin(struct tracer *tr, struct trace_batch *ret)
{
	bool reads = tr->labels_wait || tr->stacks_wait;
	struct error *err;

	if (tr->labels_wait)
		err = read_labels(tr);
	else
		err = tr->stacks_wait ? read_stacks(tr) : take(tr);
	*ret = (struct trace_batch){0};
	return err || reads || !states_are_seen(tr) ? err : add_states(tr);
}

static uint64_t lost_so_far(const struct tracer *tr)
{
	struct drain_stats drained;
	struct rings_stats rings;

	drain_stats(tr->drain, &drained);
	collector_rings_stats(tr->collector, &rings);
	return rings.lost + inject_lost(tr->injection) + rings.corrupt + drained.corrupt;
}

/* Whether to list live goroutines: a list is unfinished, or records were lost since the last one,
 * which is RECONCILE_NS old. */
static bool wants_living(struct tracer *tr)
{
	uint64_t now = clock_now() - tr->start_ns, lost;

	if (tr->living.at)
		return true;
	if (now - tr->reconciled_ns < RECONCILE_NS)
		return false;
	tr->reconciled_ns = now;
	lost = lost_so_far(tr);
	if (lost == tr->lost)
		return false;
	tr->lost = lost;
	return true;
}

/* Adds some live goroutines to the list. If they cannot be read the list is dropped. */
static void read_living(struct tracer *tr)
{
	/* A goroutine that ends after the last record leaves no event. */
	if (tr->stopped || tr->last || tr->living_read_ns || !wants_living(tr))
		return;
	collector_flush_now(tr->collector); /* for it reads the target */
	if (error_dropped(living_read(&tr->living, tr->t, tr->lay, LIVING_SLICE_NS)))
		living_release(&tr->living);
	else if (tr->living.complete)
		tr->living_read_ns = clock_now() - tr->start_ns;
}

/* All that had happened when they were read was delivered: goroutines that are not among them have
 * ended. */
static void give_living(struct tracer *tr, struct trace_batch *ret)
{
	if (!tr->living_read_ns || tr->until_ns < tr->living_read_ns)
		return;
	ret->living = &tr->living.goids;
	ret->living_ns = tr->living.began_ns - tr->start_ns;
	tr->living_read_ns = 0;
	tr->living.at = 0;
}

struct error *tracer_next(struct tracer *tr, struct trace_batch *ret)
{
	struct error *err = tr->stopped ? NULL : other_events_read_machine(&tr->others, false);

	if (err)
		return err;
	if (tr->snapshot_ns) {
		err = begin(tr, ret);
	} else {
		tr->batch.count = 0;
		if (!tr->living.at)
			living_release(&tr->living);
		read_living(tr);
		err = take(tr);
	}
	if (err || tr->snapshot_ns)
		return err;
	tr->events += tr->batch.count;
	*ret = (struct trace_batch){.events = tr->batch.items,
				    .count = tr->batch.count,
				    .until_ns = tr->until_ns,
				    .last = tr->last && !tr->more};
	give_living(tr, ret);
	return NULL;
}

void tracer_flush_now(struct tracer *tr)
{
	tr->wanted_ns = clock_now() - tr->start_ns;
	collector_flush_now(tr->collector);
}

struct error *tracer_stop(struct tracer *tr)
{
	struct error *no_memory = tr->stopped ? NULL : other_events_read_machine(&tr->others, true);
	struct error *err;

	collector_flush_now(tr->collector);
	tr->stopped = true;
	tr->wanted_ns = NEVER;
	/* While its threads stand still, they wait for us. */
	if (tr->may && tr->priority > PRIORITY)
		setpriority(PRIO_PROCESS, 0, PRIORITY);
	err = inject_detach(tr->injection);
	if (tr->may)
		setpriority(PRIO_PROCESS, 0, tr->priority);
	collector_finish(tr->collector);
	if (tr->others.cpu)
		cpu_samples_stop(tr->others.cpu);
	return err ? err : no_memory;
}

void tracer_close(struct tracer *tr)
{
	if (!tr)
		return;
	if (tr->may)
		setpriority(PRIO_PROCESS, 0, tr->priority);
	collector_destroy(tr->collector);
	inject_destroy(tr->injection);
	drain_destroy(tr->drain);
	decoder_destroy(tr->decoder);
	backlog_destroy(tr->backlog);
	stacks_at_start_close(tr->at_start);
	snapshot_release(&tr->snapshot);
	living_release(&tr->living);
	other_events_release(&tr->others);
	free(tr->batch.items);
	free(tr);
}

uint64_t tracer_waiting(const struct tracer *tr)
{
	return backlog_bytes(tr->backlog);
}

void tracer_stats(const struct tracer *tr, struct tracer_stats *ret)
{
	uint64_t samples_lost, threads_unsampled;
	struct drain_stats drained;
	struct rings_stats rings;

	drain_stats(tr->drain, &drained);
	collector_rings_stats(tr->collector, &rings);
	other_events_cpu_lost(&tr->others, &samples_lost, &threads_unsampled);
	*ret = (struct tracer_stats){
		.events = tr->events,
		.lost = lost_so_far(tr),
		.had_to_wait = !collector_goes_first(tr->collector),
		.stacks = stacks_count(decoder_stacks(tr->decoder)),
		.stacks_lost = rings.stacks_lost + stacks_dropped(decoder_stacks(tr->decoder)),
		.texts_lost = decoder_texts(tr->decoder)->refused,
		.labels_cut = decoder_labels(tr->decoder)->cut,
		.labels_lost = decoder_labels(tr->decoder)->dropped,
		.absences = collector_absences(tr->collector),
		.spill_failed = backlog_file_failed(tr->backlog),
		.without_ring = inject_without_ring(tr->injection),
		.bytes = drained.bytes,
		.cpu_samples_lost = samples_lost,
		.threads_unsampled = threads_unsampled,
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

struct texts *tracer_texts(const struct tracer *tr)
{
	return decoder_texts(tr->decoder);
}

void tracer_mark_texts(struct tracer *tr)
{
	struct texts *texts = decoder_texts(tr->decoder);

	decoder_mark_texts(tr->decoder);
	for (size_t i = 0; i < tr->batch.count; i++) {
		texts_mark(texts, tr->batch.items[i].text);
		texts_mark(texts, tr->batch.items[i].text2);
	}
	for (size_t i = 0; i < tr->snapshot.count; i++)
		texts_mark(texts, tr->snapshot.items[i].text);
	for (size_t i = 0; i < tr->snapshot.count; i++)
		texts_mark(texts, tr->snapshot.items[i].reason);
}

const struct stacks *tracer_stacks(const struct tracer *tr)
{
	return decoder_stacks(tr->decoder);
}

const struct error *tracer_no_cpu_samples(const struct tracer *tr)
{
	return tr->others.no_cpu;
}

const struct intern *tracer_cpu_stacks(const struct tracer *tr)
{
	return &tr->others.cpu_stacks;
}

const struct c_functions *tracer_c_functions(const struct tracer *tr)
{
	return &tr->others.c_functions;
}

bool tracer_has_many_cpu_stacks(const struct tracer *tr)
{
	return tr->others.cpu_stacks.count > MANY_CPU_STACKS;
}

void tracer_forget_cpu_stacks(struct tracer *tr)
{
	intern_release(&tr->others.cpu_stacks);
}
