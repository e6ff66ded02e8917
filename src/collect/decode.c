#include "collect/decode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/strbuf.h"
#include "collect/request_facts.h"
#include "gotrace/grpc_code.h"
#include "gotrace/label_text.h"
#include "hooks/range.h"

#define MAX_REASONS 256
#define MAX_REASON_LENGTH 64

/* Functions that are left out at the beginning of a stack: how the runtime came to do it. */
static const char *const hidden_names[] = {
	"runtime.gopark",       "runtime.goparkunlock",  "runtime.entersyscall",
	"runtime.newproc",      "runtime.goready",       "runtime.reentersyscall",
	"runtime.asyncPreempt", "runtime.asyncPreempt2", "runtime.systemstack_switch",
};

/* The name of a wait in execution traces, where it is not the wait reason. */
static const struct {
	const char *reason, *text;
} renamed[] = {
	{"IO wait", "network"},
	{"semacquire", "sync"},
	{"sync.Mutex.Lock", "sync"},
	{"sync.RWMutex.RLock", "sync"},
	{"sync.RWMutex.Lock", "sync"},
	{"sync.WaitGroup.Wait", "sync"},
	{"sync.Cond.Wait", "sync.(*Cond).Wait"},
	{"select (no cases)", "forever"},
	{"chan receive (nil chan)", "forever"},
	{"chan send (nil chan)", "forever"},
	{"GC assist wait", "GC mark assist wait for work"},
	{"GC sweep wait", "GC background sweeper wait"},
	{"GC worker (idle)", "system goroutine wait"},
	{"GC scavenge wait", "system goroutine wait"},
	{"force gc (idle)", "system goroutine wait"},
	{"finalizer wait", "system goroutine wait"},
	{"cleanup wait", "system goroutine wait"},
};

/* runtime.stwReasonStrings, the same from Go 1.22 to 1.27; before that they are not passed on. */
static const char *const stw_reasons[] = {
	"unknown",
	"GC mark termination",
	"GC sweep termination",
	"write heap dump",
	"goroutine profile",
	"goroutine profile cleanup",
	"all goroutines stack trace",
	"read mem stats",
	"AllThreadsSyscall",
	"GOMAXPROCS",
	"start trace",
	"stop trace",
	"CountPagesInUse (test)",
	"ReadMetricsSlow (test)",
	"ReadMemStatsSlow (test)",
	"PageCachePagesLeaked (test)",
	"ResetDebugLog (test)",
};

static const char *const worker_labels[] = {NULL, "GC (dedicated)", "GC (fractional)", "GC (idle)"};

struct decoder {
	const struct pclntab *functions;
	enum machine machine;
	struct stack_cache cache;
	uint32_t p_slots;
	uint64_t text;
	uint64_t systemstack_switch;
	bool has_stw_reasons;
	struct agent_range hidden[ARRAY_SIZE(hidden_names)];
	struct agent_range async_preempt;
	struct texts texts;
	struct labels labels;
	struct stacks *stacks;
	uint32_t reasons[MAX_REASONS];            /* texts */
	uint32_t preempted, gosched;              /* likewise */
	uint32_t request, alloc;                  /* likewise */
	uint32_t stack_of[AGENT_TABLE_SLOTS + 1]; /* the agent's number -> ours; 0: not yet */
	/* Functions whose calls are recorded: each has a string and a stack. */
	struct {
		uint32_t text;
		uint32_t stack;
	} entry_points[AGENT_MAX_ENTRY_POINTS];
	uint64_t *created;   /* of each slot: the goroutine that its last record made, or 0 */
	uint64_t *coro_next; /* of each slot: the goroutine that runs when the present one has ended
			      */
};

static bool in_range(const struct agent_range *range, uint64_t pc)
{
	return pc - range->start < range->size;
}

static const char *trace_text(const char *reason)
{
	for (size_t i = 0; i < ARRAY_SIZE(renamed); i++)
		if (!strcmp(renamed[i].reason, reason))
			return renamed[i].text;
	return reason;
}

static struct error *must_check find_text(struct decoder *d, const char *text, uint32_t *ret)
{
	*ret = texts_add(&d->texts, text, strlen(text));
	return *ret == TEXTS_FAILED ? &error_no_memory : NULL;
}

static struct error *must_check read_reason(struct target *t, const struct golayout *lay,
					    uint64_t i, char ret[MAX_REASON_LENGTH])
{
	uint64_t string[2];
	struct error *err = target_read(t, lay->v.wait_reason_strings + i * sizeof(string), string,
					sizeof(string));

	if (err)
		return err;
	if (string[1] >= MAX_REASON_LENGTH)
		string[1] = MAX_REASON_LENGTH - 1;
	ret[string[1]] = '\0';
	return string[1] ? target_read(t, string[0], ret, string[1]) : NULL;
}

static struct error *must_check read_reasons(struct decoder *d, struct target *t,
					     const struct golayout *lay)
{
	char reason[MAX_REASON_LENGTH];

	for (uint64_t i = 0; i < MAX_REASONS; i++) {
		const char *text = "unspecified";

		if (i < lay->v.wait_reason_count) {
			struct error *err = read_reason(t, lay, i, reason);

			if (err)
				return error_wrap(err,
						  "cannot read the wait reasons of the runtime");
			text = *reason ? trace_text(reason) : text;
		}
		d->reasons[i] = texts_add(&d->texts, text, strlen(text));
		if (d->reasons[i] == TEXTS_FAILED)
			return &error_no_memory;
	}
	return NULL;
}

static struct error *must_check name_entry_point(struct decoder *d, uint64_t entry, uint32_t *ret)
{
	struct go_frame frames[8];
	size_t n = pclntab_frames(d->functions, entry | STACK_PC_EXACT, frames, ARRAY_SIZE(frames));
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	strbuf_adds(&text, TRACE_CALL_PREFIX);
	strbuf_adds(&text, n ? frames[n - 1].function : "?");
	*ret = text.failed ? TEXTS_FAILED : texts_add(&d->texts, text.data, text.length);
	return *ret == TEXTS_FAILED ? &error_no_memory : NULL;
}

static struct error *must_check name_entry_points(struct decoder *d, const uint64_t *entries)
{
	struct error *err = NULL;

	for (size_t i = 0; !err && i < AGENT_MAX_ENTRY_POINTS && entries[i]; i++) {
		uint64_t word = entries[i] | STACK_PC_EXACT;

		err = name_entry_point(d, entries[i], &d->entry_points[i].text);
		if (!err)
			err = stacks_intern(d->stacks, &word, 1, &d->entry_points[i].stack);
	}
	return err;
}

struct error *decoder_create(struct target *t, const struct image *img, const struct golayout *lay,
			     const struct stack_cache *cache, struct decoder **ret)
{
	const struct agent_shared *layout = cache->layout;
	_cleanup_decoder_ struct decoder *d = calloc(1, sizeof(*d));
	struct error *err;

	if (!d)
		return &error_no_memory;
	d->functions = &img->functions;
	d->machine = img->machine;
	d->cache = *cache;
	d->p_slots = layout->slots - AGENT_FALLBACK_SLOTS;
	d->text = layout->config.text;
	d->systemstack_switch = layout->config.systemstack_switch;
	d->has_stw_reasons = lay->minor >= 22;
	for (size_t i = 0; i < ARRAY_SIZE(hidden_names); i++)
		d->hidden[i] = range_of(d->functions, hidden_names[i]);
	d->async_preempt = range_of(d->functions, "runtime.asyncPreempt");
	d->stacks = stacks_create(d->functions, img->machine);
	d->coro_next = calloc(layout->slots, sizeof(d->coro_next[0]));
	d->created = calloc(layout->slots, sizeof(d->created[0]));
	if (!d->stacks || !d->coro_next || !d->created)
		return &error_no_memory;
	err = labels_init(&d->labels, t, lay, layout->slots, &d->texts);
	if (!err)
		err = find_text(d, "preempted", &d->preempted);
	if (!err)
		err = find_text(d, "runtime.Gosched", &d->gosched);
	if (!err)
		err = find_text(d, REQUEST_CATEGORY, &d->request);
	if (!err)
		err = find_text(d, ALLOC_CATEGORY, &d->alloc);
	if (!err)
		err = read_reasons(d, t, lay);
	if (!err)
		err = name_entry_points(d, layout->sites.entry_points);
	if (err)
		return err;
	texts_pin(&d->texts);
	stacks_limit(d->stacks, layout->arena_words);
	*ret = take_ptr(d);
	return NULL;
}

void decoder_destroy(struct decoder *d)
{
	if (!d)
		return;
	labels_deinit(&d->labels);
	texts_release(&d->texts);
	stacks_destroy(d->stacks);
	free(d->coro_next);
	free(d->created);
	free(d);
}

struct texts *decoder_texts(struct decoder *d)
{
	return &d->texts;
}

void decoder_mark_texts(struct decoder *d)
{
	labels_mark_texts(&d->labels);
}

struct stacks *decoder_stacks(struct decoder *d)
{
	return d->stacks;
}

struct labels *decoder_labels(struct decoder *d)
{
	return &d->labels;
}

/* ---- stacks ---- */

/* At this pc the frame is not there yet or no more: the word at SP, or LR, is the return address.
 * On arm64 that still holds right behind the instruction that makes the frame: the next ones set
 * the frame pointer. */
static bool has_no_frame(const struct decoder *d, uint64_t pc)
{
	struct go_func f;

	if (!pclntab_find(d->functions, pc, &f))
		return false;
	return pclntab_sp_delta(&f, pc) == 0 || (d->machine == MACHINE_ARM64 && pc - 4 >= f.entry &&
						 pclntab_sp_delta(&f, pc - 4) == 0);
}

static bool is_hidden(const struct decoder *d, uint64_t pc)
{
	for (size_t i = 0; i < ARRAY_SIZE(hidden_names); i++)
		if (in_range(&d->hidden[i], stack_pc_lookup(pc)))
			return true;
	return false;
}

/* A word where frames are missing becomes two. */
#define CORRECTED_WORDS (2 * STACK_CACHE_WORDS)

/*
 * The words as the rest of gospect has them. A word from the stack pointer counts when the frame
 * before it was none; where a signal interrupted, the pc is not a return address.
 */
static size_t correct_words(const struct decoder *d, const uint64_t *words, size_t count,
			    uint64_t ret[CORRECTED_WORDS])
{
	const uint64_t bits = AGENT_WORD_AT_SP | AGENT_WORD_CUT;
	size_t n = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t pc = words[i] & ~bits, before = i ? words[i - 1] & ~bits : 0;

		if (words[i] & AGENT_WORD_CUT) {
			ret[n++] = STACK_PC_TRUNCATED;
			ret[n++] = pc | STACK_PC_EXACT;
		} else if (words[i] & AGENT_WORD_AT_SP) {
			if (before == d->systemstack_switch || has_no_frame(d, before))
				ret[n++] = pc;
		} else if (pc != d->systemstack_switch) {
			ret[n++] = in_range(&d->async_preempt, before) ? pc | STACK_PC_EXACT : pc;
		}
	}
	return n;
}

static struct error *must_check intern_words(struct decoder *d, const uint64_t *words, size_t n,
					     uint32_t *ret)
{
	size_t skip = 0;

	*ret = STACK_NONE;
	while (skip + 1 < n && is_hidden(d, words[skip]))
		skip++;
	return n ? stacks_intern(d->stacks, words + skip, n - skip, ret) : NULL;
}

static bool is_runtime(const struct decoder *d, uint64_t pc)
{
	struct go_func f;

	return pclntab_find(d->functions, stack_pc_lookup(pc), &f) &&
	       (!strncmp(f.name, "runtime.", 8) || !strncmp(f.name, "internal/runtime/", 17));
}

/* Of an allocation: as in heap profiles, the runtime's functions at its beginning are left out,
 * unless there are no others. */
static size_t allocator_words(const struct decoder *d, const uint64_t *words, size_t n)
{
	size_t skip = 0;

	while (skip < n && is_runtime(d, words[skip]))
		skip++;
	return skip < n ? skip : 0;
}

static struct error *must_check intern_stack(struct decoder *d, uint64_t number, bool allocates,
					     uint32_t *ret)
{
	uint64_t words[STACK_CACHE_WORDS], corrected[CORRECTED_WORDS];
	size_t count = stack_cache_read(&d->cache, number, words);
	size_t n = correct_words(d, words, count, corrected);
	size_t skip = allocates ? allocator_words(d, corrected, n) : 0;

	return intern_words(d, corrected + skip, n - skip, ret);
}

struct error *decoder_parked_stack(struct decoder *d, const uint64_t *words, size_t count,
				   uint32_t *ret)
{
	return intern_words(d, words, count, ret);
}

uint32_t decoder_reason(const struct decoder *d, uint8_t reason)
{
	return d->reasons[reason % MAX_REASONS];
}

/* `allocates`: it begins in the allocator, as no stack of another kind of record does. */
static struct error *must_check find_stack(struct decoder *d, uint64_t number, bool allocates,
					   uint32_t *ret)
{
	struct error *err;

	*ret = STACK_NONE;
	if (!number || number > AGENT_TABLE_SLOTS)
		return NULL;
	err = intern_stack(d, number, allocates, ret);
	d->stack_of[number] = *ret;
	return err;
}

/* STACK_NONE: not seen yet, or no stack. */
static uint32_t known_stack(const struct decoder *d, uint64_t number)
{
	return number <= AGENT_TABLE_SLOTS ? d->stack_of[number] : STACK_NONE;
}

/* ---- events ---- */

static struct error *must_check take_text(struct decoder *d, const struct drain_text *text,
					  uint32_t *ret)
{
	*ret = texts_add(&d->texts, (const char *)text->bytes, text->length);
	return *ret == TEXTS_FAILED ? &error_no_memory : NULL;
}

/* Decode the rest of some records; the event has its kind, goroutine and stack already. */

static struct error *must_check plain(struct decoder *d, const struct drain_record *r,
				      struct trace_event *ev, size_t *ret_count)
{
	return NULL;
}

static struct error *must_check argument(struct decoder *d, const struct drain_record *r,
					 struct trace_event *ev, size_t *ret_count)
{
	ev->arg = r->numbers[1];
	return NULL;
}

static struct error *must_check processor(struct decoder *d, const struct drain_record *r,
					  struct trace_event *ev, size_t *ret_count)
{
	ev->p = r->numbers[0] < UINT32_MAX ? r->numbers[0] : TRACE_NO_P;
	ev->g = 0;
	return NULL;
}

static struct error *must_check block(struct decoder *d, const struct drain_record *r,
				      struct trace_event *ev, size_t *ret_count)
{
	ev->text = d->reasons[r->numbers[2] % MAX_REASONS];
	return NULL;
}

static struct error *must_check preempted(struct decoder *d, const struct drain_record *r,
					  struct trace_event *ev, size_t *ret_count)
{
	ev->text = d->preempted;
	return NULL;
}

static struct error *must_check gosched(struct decoder *d, const struct drain_record *r,
					struct trace_event *ev, size_t *ret_count)
{
	ev->text = d->gosched;
	return NULL;
}

static struct error *must_check create(struct decoder *d, const struct drain_record *r,
				       struct trace_event *ev, size_t *ret_count)
{
	ev->arg = r->numbers[1] + d->text;
	d->created[r->slot] = r->numbers[0];
	return NULL;
}

static struct error *must_check start_worker(struct decoder *d, const struct drain_record *r,
					     struct trace_event *ev, size_t *ret_count)
{
	uint64_t mode = r->numbers[1];

	if (!mode || mode >= ARRAY_SIZE(worker_labels))
		return NULL;
	ev[1] = ev[0];
	ev[1].kind = TRACE_LABEL;
	*ret_count = 2;
	return find_text(d, worker_labels[mode], &ev[1].text);
}

static struct error *must_check coro_exit(struct decoder *d, const struct drain_record *r,
					  struct trace_event *ev, size_t *ret_count)
{
	d->coro_next[r->slot] = r->numbers[1];
	*ret_count = 0;
	return NULL;
}

/* A goroutine has ended; after coro_exit() another runs at once in its place. */
static struct error *must_check end(struct decoder *d, const struct drain_record *r,
				    struct trace_event *ev, size_t *ret_count)
{
	uint64_t next = d->coro_next[r->slot];

	d->coro_next[r->slot] = 0;
	if (!next)
		return NULL;
	ev[1] = ev[2] = ev[0];
	ev[1].kind = TRACE_UNBLOCK;
	ev[2].kind = TRACE_START;
	ev[1].g = ev[2].g = next;
	*ret_count = 3;
	return NULL;
}

static struct error *must_check stw_begin(struct decoder *d, const struct drain_record *r,
					  struct trace_event *ev, size_t *ret_count)
{
	const char *why = "unknown";

	if (d->has_stw_reasons && r->numbers[1] < ARRAY_SIZE(stw_reasons))
		why = stw_reasons[r->numbers[1]];
	return find_text(d, why, &ev->text);
}

/* A call of a request entry point. An unknown number is invalid. */
static struct error *must_check call(struct decoder *d, const struct drain_record *r,
				     struct trace_event *ev, size_t *ret_count)
{
	uint64_t entry_point = r->numbers[1];

	if (entry_point >= AGENT_MAX_ENTRY_POINTS || !d->entry_points[entry_point].text) {
		*ret_count = 0;
		return NULL;
	}
	ev->text = d->entry_points[entry_point].text;
	ev->stack = d->entry_points[entry_point].stack;
	ev->arg = r->numbers[2] ?: 1;
	return NULL;
}

static struct error *must_check region(struct decoder *d, const struct drain_record *r,
				       struct trace_event *ev, size_t *ret_count)
{
	ev->arg = r->numbers[1];
	return take_text(d, &r->texts[0], &ev->text);
}

static struct error *must_check task_begin(struct decoder *d, const struct drain_record *r,
					   struct trace_event *ev, size_t *ret_count)
{
	ev->arg2 = r->numbers[2];
	return region(d, r, ev, ret_count);
}

static struct error *must_check log_line(struct decoder *d, const struct drain_record *r,
					 struct trace_event *ev, size_t *ret_count)
{
	struct error *err = region(d, r, ev, ret_count);

	return err ? err : take_text(d, &r->texts[1], &ev->text2);
}

/* A log with the line, or nothing. */
static struct error *must_check request_log(struct decoder *d, const struct strbuf *line,
					    struct trace_event *ev, size_t *ret_count)
{
	*ret_count = line->length > 0;
	ev->text = d->request;
	ev->text2 = line->failed ? TEXTS_FAILED : texts_add(&d->texts, line->data, line->length);
	return ev->text2 == TEXTS_FAILED ? &error_no_memory : NULL;
}

static struct error *must_check request(struct decoder *d, const struct drain_record *r,
					struct trace_event *ev, size_t *ret_count)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

	request_facts_add(&line, &r->texts[0]);
	return request_log(d, &line, ev, ret_count);
}

static struct error *must_check route(struct decoder *d, const struct drain_record *r,
				      struct trace_event *ev, size_t *ret_count)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

	if (r->texts[0].length)
		request_fact_add(&line, "route", r->texts[0].bytes, r->texts[0].length);
	return request_log(d, &line, ev, ret_count);
}

static struct error *must_check status(struct decoder *d, const struct drain_record *r,
				       struct trace_event *ev, size_t *ret_count)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

	strbuf_addf(&line, "status=%u", (unsigned int)(r->numbers[1] % 1000));
	return request_log(d, &line, ev, ret_count);
}

static struct error *must_check grpc_status(struct decoder *d, const struct drain_record *r,
					    struct trace_event *ev, size_t *ret_count)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	char name[GRPC_CODE_NAME];

	grpc_code_name((uint32_t)r->numbers[1], name);
	strbuf_addf(&line, "status=%s", name);
	return request_log(d, &line, ev, ret_count);
}

static struct error *must_check allocation(struct decoder *d, const struct drain_record *r,
					   struct trace_event *ev, size_t *ret_count)
{
	char line[64];
	int length =
		snprintf(line, sizeof(line), "rate=%lu size=%lu", r->numbers[3], r->numbers[2]);

	ev->text = d->alloc;
	ev->text2 = texts_add(&d->texts, line, (size_t)length);
	return ev->text2 == TEXTS_FAILED ? &error_no_memory : NULL;
}

/* An event by itself, unless it follows the goroutine's creation: a goroutine known by its g runs.
 */
static struct error *must_check labels(struct decoder *d, const struct drain_record *r,
				       struct trace_event *ev, size_t *ret_count)
{
	bool created = d->created[r->slot] == r->numbers[0];

	ev->arg = created ? TRACE_LABELS_BY_ANOTHER : TRACE_LABELS_BY_ITSELF;
	return labels_of_record(&d->labels, r, &ev->text);
}

static struct error *must_check lost(struct decoder *d, const struct drain_record *r,
				     struct trace_event *ev, size_t *ret_count)
{
	ev->g = 0;
	ev->arg = r->numbers[0];
	return NULL;
}

static const struct rule {
	struct error *(*how)(struct decoder *d, const struct drain_record *r,
			     struct trace_event *ev, size_t *ret_count);
	enum trace_kind event;
	uint8_t stack; /* the index of the number; 0: none */
} rules[RECORDS + 1] = {
#define RECORD(name, numbers, texts, stack, event, how, what) \
	[RECORD_##name] = {how, TRACE_##event, stack},
#include "agent/records.def"
#undef RECORD
	[RECORD_LOST] = {lost, TRACE_LOST, 0},
};

/* A function of its own, so that events with known stacks do not pay for its calls. */
static __attribute__((noinline)) struct error *must_check events_with_new_stack(
	struct decoder *d, const struct drain_record *r, struct trace_event *ret, size_t *ret_count)
{
	const struct rule *rule = &rules[r->kind];
	struct error *err =
		find_stack(d, r->numbers[rule->stack], r->kind == RECORD_ALLOC, &ret->stack);

	return err ? err : rule->how(d, r, ret, ret_count);
}

struct error *decoder_events(struct decoder *d, const struct drain_record *r, uint64_t ns,
			     struct trace_event ret[DECODE_MAX_EVENTS], size_t *ret_count)
{
	const struct rule *rule = &rules[r->kind];

	*ret = (struct trace_event){.kind = rule->event,
				    .ns = ns,
				    .m = r->thread ? r->thread : TRACE_NO_M,
				    .g = r->numbers[0],
				    .p = r->slot < d->p_slots ? r->slot : TRACE_NO_P};
	*ret_count = 1;
	if (rule->event != TRACE_LABELS)
		d->created[r->slot] = 0;
	if (rule->stack) {
		ret->stack = known_stack(d, r->numbers[rule->stack]);
		if (ret->stack == STACK_NONE)
			return events_with_new_stack(d, r, ret, ret_count);
	}
	return rule->how(d, r, ret, ret_count);
}
