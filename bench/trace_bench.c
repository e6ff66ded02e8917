/*
 * The CPU time of gospect for an event of a trace: from the agent's records, which are synthetic
 * here, to the bytes of the file.
 *
 * 	trace_bench WORK [FILE]
 *
 * WORK is pingpong, flood or http: goroutines do in turn what those of bench/targets/meter do,
 * with as many events of each kind, on two processors. Prints a line of JSON: CPU time in ns an
 * event, the median of the rounds,
 * 	collect	copying what is in the rings
 * 	read	that, and taking the records out of it, in order
 * 	decode	that, and making events of them
 * 	write	that, and the model's and the format's part: all that becomes of an event
 * FILE gets the trace of one round, as Perfetto's where the name ends so, and is the same whenever
 * gospect writes the same. The memory that a trace's first seconds take is there already. Beside a
 * program that needs the caches it takes longer; and a real trace is written to a disk.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/strbuf.h"
#include "collect/backlog.h"
#include "collect/decode.h"
#include "collect/drain.h"
#include "collect/rings.h"
#include "collect/ticks.h"
#include "gotrace/model.h"
#include "gotrace/trace_format.h"
#include "tests/made_runtime.h"

enum {
	PROCESSORS = 2,
	SLOTS = PROCESSORS + AGENT_FALLBACK_SLOTS,
	RING = 4 << 20,
	BLOCKS = 64,
	ARENA_WORDS = 1 << 16,
	STACKS = 64,
	STACK_WORDS = 9,
	ROLES = 5,       /* goroutines of one group, at most */
	MAX_GROUPS = 64, /* of a processor */
	PARKED = 1000,   /* goroutines that do nothing */
	ROUNDS = 9,
	WARM_LOOKS = 50, /* of a round, before those that count */
	LOOKS = 50,
	LOOK_EVENTS = 30000,
	TICKS = 500, /* between two events of a processor */
	GENERATION_BYTES = 8 << 20,
	FIRST_THREAD = 20000,
	FIRST_GOID = 4000,
	FIRST_TICK = 1 << 20,
};

/* The next record of a goroutine, by its group's role. */
struct act {
	enum agent_record kind;
	uint8_t role;
	uint8_t stack; /* 0: none */
};

struct workload {
	const char *name;
	unsigned int groups; /* that take turns on a processor */
	unsigned int roles;
	const struct act *acts;
	size_t count;
};

static const struct act pingpong[] = {
	{RECORD_START, 0, 0}, {RECORD_UNBLOCK, 1, 1}, {RECORD_BLOCK, 0, 2},
	{RECORD_START, 1, 0}, {RECORD_UNBLOCK, 0, 3}, {RECORD_BLOCK, 1, 4},
};

/* A request, of a client with its connection's two goroutines (0 to 2), to a server's (3), which
 * starts one (4) to notice that the client goes away. */
static const struct act http[] = {
	{RECORD_START, 0, 0},        {RECORD_UNBLOCK, 1, 1},      {RECORD_BLOCK, 0, 2},
	{RECORD_START, 1, 0},        {RECORD_SYSCALL, 1, 3},      {RECORD_SYSCALL_EXIT, 1, 0},
	{RECORD_UNBLOCK, 2, 4},      {RECORD_BLOCK, 1, 5},        {RECORD_START, 2, 0},
	{RECORD_BLOCK, 2, 6},        {RECORD_UNBLOCK, 3, 0},      {RECORD_START, 3, 0},
	{RECORD_SYSCALL, 3, 7},      {RECORD_SYSCALL_EXIT, 3, 0}, {RECORD_CALL, 3, 0},
	{RECORD_CREATE, 4, 8},       {RECORD_SYSCALL, 3, 9},      {RECORD_SYSCALL_EXIT, 3, 0},
	{RECORD_RETURN, 3, 0},       {RECORD_BLOCK, 3, 10},       {RECORD_START, 4, 0},
	{RECORD_SYSCALL, 4, 11},     {RECORD_SYSCALL_EXIT, 4, 0}, {RECORD_UNBLOCK, 3, 12},
	{RECORD_EXIT, 4, 0},         {RECORD_START, 3, 0},        {RECORD_SYSCALL, 3, 13},
	{RECORD_SYSCALL_EXIT, 3, 0}, {RECORD_BLOCK, 3, 14},       {RECORD_UNBLOCK, 2, 0},
	{RECORD_START, 2, 0},        {RECORD_SYSCALL, 2, 15},     {RECORD_SYSCALL_EXIT, 2, 0},
	{RECORD_UNBLOCK, 0, 16},     {RECORD_BLOCK, 2, 17},       {RECORD_START, 0, 0},
	{RECORD_UNBLOCK, 2, 18},     {RECORD_BLOCK, 0, 19},       {RECORD_START, 2, 0},
	{RECORD_SYSCALL, 2, 20},     {RECORD_SYSCALL_EXIT, 2, 0}, {RECORD_BLOCK, 2, 21},
	{RECORD_UNBLOCK, 0, 0},
};

static const struct workload workloads[] = {
	{"pingpong", 4, 2, pingpong, ARRAY_SIZE(pingpong)},
	{"flood", 1, 2, pingpong, ARRAY_SIZE(pingpong)},
	{"http", 32, 5, http, ARRAY_SIZE(http)},
};

struct group {
	uint64_t goids[ROLES];
	size_t next; /* act */
};

/* The writer of one P's ring. */
struct writer {
	struct agent_slot *slot;
	uint8_t *ring;
	uint64_t tick;
	uint64_t thread;
	unsigned int turn;
	struct group groups[MAX_GROUPS];
};

struct bench {
	const struct workload *work;
	struct made_runtime runtime;
	struct agent_shared *shared;
	struct agent_shared layout;
	struct writer writers[PROCESSORS];
	uint64_t last_goid;
	struct rings *rings;
	struct backlog *backlog;
	struct drain *drain;
	struct decoder *decoder;
	struct trace_writer *file;
	const struct trace_format *format;
	struct trace_model *model;
	struct ticks ticks;
	FILE *out; /* or NULL */
};

/* How far an event comes. */
enum stage { COLLECT, READ, DECODE, WRITE, STAGES };

/* ---- the agent's output ---- */

static void put_bytes(struct writer *w, const void *bytes, size_t n)
{
	memcpy(w->ring + w->slot->write % RING, bytes, n);
	w->slot->write += n;
}

static void begin_chunk(struct writer *w)
{
	struct agent_chunk chunk = {w->tick, w->thread, 0};
	uint64_t left = -w->slot->write % AGENT_CHUNK_BYTES;

	if (left)
		w->ring[w->slot->write % RING] = RECORD_NONE;
	w->slot->write += left;
	put_bytes(w, &chunk, sizeof(chunk));
}

/* As the agent writes it (agent/fast.h): so many bytes, whatever the number. */
static size_t put_wide(uint8_t *to, uint64_t value, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		to[i] = (value >> 7 * i & 0x7f) | (i + 1 < bytes ? 0x80 : 0);
	return bytes;
}

static size_t put_rest(uint8_t *to, const struct act *act)
{
	size_t n = 0;

	switch (act->kind) {
	case RECORD_BLOCK:
		n = put_wide(to, act->stack, 3);
		return n + uvarint_put(to + n, 1);
	case RECORD_CREATE:
		n = uvarint_put(to, made_pc(MADE_ROOT, false) - MADE_TEXT);
		break;
	case RECORD_CALL:
	case RECORD_RETURN:
		n = uvarint_put(to, 0);
		return n + uvarint_put(to + n, 1000);
	case RECORD_UNBLOCK:
	case RECORD_SYSCALL:
		break;
	default:
		return 0;
	}
	return n + put_wide(to + n, act->stack, 3);
}

static void write_act(struct bench *b, struct writer *w)
{
	struct group *group = &w->groups[w->turn];
	const struct act *act = &b->work->acts[group->next];
	uint8_t record[AGENT_MAX_RECORD];
	uint64_t goid;
	size_t n = 0;

	if (act->kind == RECORD_CREATE)
		group->goids[act->role] = ++b->last_goid;
	goid = group->goids[act->role];
	record[n++] = act->kind;
	n += put_wide(record + n, TICKS, 3);
	n += put_wide(record + n, goid, goid < 1 << 14 ? 2 : 4);
	n += put_rest(record + n, act);
	w->tick += TICKS;
	if (-w->slot->write % AGENT_CHUNK_BYTES <= AGENT_MAX_RECORD)
		begin_chunk(w);
	put_bytes(w, record, n);
	group->next = (group->next + 1) % b->work->count;
	if (!group->next)
		w->turn = (w->turn + 1) % b->work->groups;
}

static void write_acts(struct bench *b)
{
	for (size_t i = 0; i < LOOK_EVENTS / PROCESSORS; i++)
		for (size_t p = 0; p < PROCESSORS; p++)
			write_act(b, &b->writers[p]);
}

/* ---- the state before ---- */

static void make_stack(struct bench *b, unsigned int number)
{
	uint8_t *base = (uint8_t *)b->shared;
	struct agent_stack *table = (void *)(base + b->layout.table_offset);
	uint64_t *words =
		(uint64_t *)(base + b->layout.arena_offset) + (size_t)number * (STACK_WORDS + 1);

	words[0] = STACK_WORDS;
	for (unsigned int i = 1; i < STACK_WORDS; i++)
		words[i] = made_pc((number >> i) % MADE_GOEXIT, false);
	words[STACK_WORDS] = MADE_TEXT + MADE_GOEXIT * MADE_SIZE + 1;
	table[number - 1] =
		(struct agent_stack){number,
				     words - (uint64_t *)(base + b->layout.arena_offset) + 1};
}

static struct error *must_check make_memory(struct bench *b)
{
	struct agent_shared *l = &b->layout;

	l->slots = SLOTS;
	l->ring_bytes = RING;
	l->table_offset = 4096;
	l->arena_offset = l->table_offset + AGENT_TABLE_SLOTS * sizeof(struct agent_stack);
	l->arena_words = ARENA_WORDS;
	l->slots_offset = l->arena_offset + ARENA_WORDS * sizeof(uint64_t);
	l->rings_offset = l->slots_offset + SLOTS * AGENT_SLOT_BYTES;
	l->size = l->rings_offset + SLOTS * RING;
	l->config.text = MADE_TEXT;
	l->sites.entry_points[0] = MADE_TEXT + MADE_ROOT * MADE_SIZE;
	b->shared = mmap(NULL, l->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (b->shared == MAP_FAILED)
		return &error_no_memory;
	for (unsigned int i = 1; i < STACKS; i++)
		make_stack(b, i);
	return NULL;
}

static void make_writer(struct bench *b, unsigned int i)
{
	struct writer *w = &b->writers[i];
	uint8_t *base = (uint8_t *)b->shared;

	*w = (struct writer){.slot = (void *)(base + b->layout.slots_offset +
					      (size_t)i * AGENT_SLOT_BYTES),
			     .ring = base + b->layout.rings_offset + (size_t)i * RING,
			     .tick = FIRST_TICK + i * TICKS / PROCESSORS,
			     .thread = FIRST_THREAD + i};
	for (unsigned int k = 0; k < b->work->groups; k++)
		for (unsigned int role = 0; role < b->work->roles; role++)
			w->groups[k].goids[role] = ++b->last_goid;
	begin_chunk(w);
}

static struct error *must_check write_generation(void *arg, const void *bytes, size_t size,
						 uint64_t ns)
{
	const struct bench *b = arg;

	return !b->out || fwrite(bytes, 1, size, b->out) == size
		       ? NULL
		       : error_format(ERROR_FAILED, "cannot write the trace");
}

static struct error *must_check say(struct bench *b, struct trace_event ev)
{
	ev.ns = 1;
	return trace_model_add(b->model, &ev);
}

/* The first of each group is about to run, the others wait. */
static struct error *must_check say_states(struct bench *b)
{
	struct error *err = NULL;

	for (uint64_t i = 1; i <= b->last_goid && !err; i++) {
		bool first = i > FIRST_GOID && (i - FIRST_GOID - 1) % b->work->roles == 0;

		if (i > PARKED && i <= FIRST_GOID)
			continue;
		err = say(b, (struct trace_event){.kind = TRACE_G_STATUS,
						  .m = TRACE_NO_M,
						  .p = TRACE_NO_P,
						  .g = i,
						  .arg = first ? TRACE_RUNNABLE : TRACE_WAITING});
	}
	for (unsigned int p = 0; p < PROCESSORS && !err; p++)
		err = say(b, (struct trace_event){.kind = TRACE_P_STATUS,
						  .m = b->writers[p].thread,
						  .p = p,
						  .arg = PROC_RUNNING});
	return err;
}

static struct error *must_check make_file(struct bench *b)
{
	struct trace_writer_options options = {.functions = &b->runtime.img.functions,
					       .stacks = decoder_stacks(b->decoder),
					       .texts = decoder_texts(b->decoder),
					       .depth = 32,
					       .process = "made-up",
					       .pid = 1,
					       .generation = write_generation,
					       .arg = b};
	struct trace_sink sink;
	struct error *err = b->format->create(&options, &b->file);

	if (err)
		return err;
	if (b->out)
		fwrite(b->format->header, 1, b->format->header_size, b->out);
	sink = b->format->sink(b->file);
	return trace_model_create(&sink, &b->model);
}

static struct error *must_check make_all(struct bench *b)
{
	struct error *err = make_memory(b);

	made_runtime_init(&b->runtime, 27, 1);
	b->last_goid = FIRST_GOID;
	if (err)
		return err;
	for (unsigned int i = 0; i < PROCESSORS; i++)
		make_writer(b, i);
	err = rings_create(b->shared, &b->layout, NULL, UINT64_MAX, &b->rings);
	if (!err)
		err = backlog_create(BLOCKS, &b->backlog);
	if (!err)
		err = drain_create(&b->layout, b->backlog, &b->drain);
	if (!err)
		err = decoder_create(&b->runtime.base, &b->runtime.img, &b->runtime.lay,
				     &(struct stack_cache){b->shared, &b->layout}, &b->decoder);
	if (!err)
		err = make_file(b);
	return err ? err : say_states(b);
}

static void release(struct bench *b)
{
	trace_model_destroy(b->model);
	if (b->file)
		b->format->destroy(b->file);
	decoder_destroy(b->decoder);
	drain_destroy(b->drain);
	backlog_destroy(b->backlog);
	rings_destroy(b->rings);
	if (b->shared && b->shared != MAP_FAILED)
		munmap(b->shared, b->layout.size);
	made_runtime_release(&b->runtime);
}

/* ---- measurements ---- */

static struct error *must_check write_events(struct bench *b, const struct trace_event *events,
					     size_t count)
{
	struct error *err = NULL;

	for (size_t i = 0; i < count && !err; i++) {
		if (b->format->size(b->file) > GENERATION_BYTES)
			err = trace_model_new_generation(b->model, events[i].ns);
		if (!err)
			err = trace_model_add(b->model, &events[i]);
	}
	return err;
}

/* One record, as far as it is to come. */
static struct error *must_check take_record(struct bench *b, const struct drain_record *r,
					    enum stage stage)
{
	struct trace_event events[DECODE_MAX_EVENTS];
	struct error *err;
	size_t count;

	if (stage < DECODE)
		return NULL;
	err = decoder_events(b->decoder, r, ticks_to_ns(&b->ticks, r->tick), events, &count);
	return err || stage < WRITE ? err : write_events(b, events, count);
}

/* The work of the collector's thread in one look. */
static struct block *collect(struct bench *b)
{
	struct block *first = backlog_get(b->backlog);

	rings_collect(b->rings, b->backlog, first, 0, 0, true);
	return first;
}

static void give_back(struct bench *b, struct block *block)
{
	while (block) {
		struct block *next = block->next;

		backlog_release(b->backlog, block);
		block = next;
	}
}

static struct error *must_check take_all(struct bench *b, enum stage stage)
{
	struct block *first = collect(b);
	const struct drain_record *r;
	struct error *err = NULL;

	if (stage == COLLECT) {
		give_back(b, first);
		return NULL;
	}
	drain_add(b->drain, first);
	while (!err && (r = drain_next(b->drain)))
		err = take_record(b, r, stage);
	return err;
}

static double cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* The CPU time of an event. */
static struct error *must_check take_looks(struct bench *b, enum stage stage, int count,
					   double *ret)
{
	struct error *err = NULL;
	double ns = 0;

	for (int i = 0; i < count && !err; i++) {
		double began;

		write_acts(b);
		began = cpu_ns();
		err = take_all(b, stage);
		ns += cpu_ns() - began;
	}
	*ret = ns / count / LOOK_EVENTS;
	return err;
}

/* All of it came, and was as a program does it: or something else was measured. */
static struct error *must_check check(const struct bench *b)
{
	struct trace_model_stats model = trace_model_stats(b->model);
	uint64_t made = (WARM_LOOKS + LOOKS) * LOOK_EVENTS;
	struct drain_stats drained;

	drain_stats(b->drain, &drained);
	if (drained.records != made || model.dropped || model.reconciled)
		return error_format(ERROR_FAILED,
				    "%lu of %lu records came, %lu events were dropped, %lu steps "
				    "were put in between",
				    drained.records, made, model.dropped, model.reconciled);
	return NULL;
}

static struct error *must_check run_round(struct bench *b, enum stage stage, double *ret)
{
	struct error *err = make_all(b);

	if (!err)
		err = take_looks(b, stage, WARM_LOOKS, ret);
	if (!err)
		err = take_looks(b, stage, LOOKS, ret);
	if (!err && stage == WRITE)
		err = b->format->finish(b->file);
	if (!err && stage == WRITE)
		err = check(b);
	release(b);
	return err;
}

static struct error *must_check run(const struct bench *b, enum stage stage, double *ret)
{
	_cleanup_free_ struct bench *round = malloc(sizeof(*round));

	if (!round)
		return &error_no_memory;
	*round = *b;
	return run_round(round, stage, ret);
}

static int by_size(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static struct error *must_check measure(const struct bench *b, double *ret)
{
	double took[STAGES][ROUNDS];
	struct error *err = NULL;

	for (int i = 0; i < ROUNDS; i++)
		for (enum stage stage = COLLECT; stage < STAGES && !err; stage++)
			err = run(b, stage, &took[stage][i]);
	for (enum stage stage = COLLECT; stage < STAGES && !err; stage++) {
		qsort(took[stage], ROUNDS, sizeof(took[stage][0]), by_size);
		ret[stage] = took[stage][ROUNDS / 2];
	}
	return err;
}

static const struct workload *workload_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(workloads); i++)
		if (!strcmp(workloads[i].name, name))
			return &workloads[i];
	return NULL;
}

int main(int argc, char **argv)
{
	_cleanup_free_ struct bench *b = calloc(1, sizeof(*b));
	_cleanup_fclose_ FILE *out = argc == 3 ? fopen(argv[2], "w") : NULL;
	_cleanup_error_ struct error *err = NULL;
	double took[STAGES];

	if (b && (argc == 2 || out))
		b->work = workload_find(argv[1]);
	if (!b || !b->work) {
		fprintf(stderr, "trace_bench: pingpong|flood|http [FILE]\n");
		return 2;
	}
	b->out = out;
	b->format = out && strstr(argv[2], trace_format_perfetto.suffix) ? &trace_format_perfetto
									 : &trace_format_go;
	/* The clock's two pairs say the same always, so that the trace is. */
	b->ticks =
		(struct ticks){.pairs = {{0, 0, 0.4}, {25ull << 40, 10ull << 40, 0}}, .count = 2};
	err = out ? run(b, WRITE, took) : measure(b, took);
	if (err) {
		fprintf(stderr, "trace_bench: %s\n", err->message);
		return 1;
	}
	if (out)
		return 0;
	printf("{\"work\": \"%s\", \"collect\": %.1f, \"read\": %.1f, \"decode\": %.1f, \"write\": %.1f}\n",
	       b->work->name, took[COLLECT], took[READ], took[DECODE], took[WRITE]);
	return 0;
}
