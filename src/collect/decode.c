#include "collect/decode.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/strbuf.h"
#include "hooks/range.h"

#define MAX_REASONS 256
#define MAX_REASON_LENGTH 64

/* Functions that are left out at the beginning of a stack: how the runtime came to do it. */
static const char *const hidden_names[] = {
	"runtime.gopark",       "runtime.goparkunlock",  "runtime.entersyscall",
	"runtime.newproc",      "runtime.goready",       "runtime.reentersyscall",
	"runtime.asyncPreempt", "runtime.asyncPreempt2", "runtime.systemstack_switch",
};

/* What execution traces call a wait, where it is not the wait reason. */
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
	const struct drain *drain;
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
	uint32_t stack_of[AGENT_TABLE_SLOTS + 1]; /* the agent's number -> ours; 0: not yet */
	/* Functions whose calls are told: a string, and a stack of it alone. */
	struct {
		uint32_t text;
		uint32_t stack;
	} roots[AGENT_MAX_ROOTS];
	uint64_t *created;   /* of each slot: the goroutine that its last record made, or 0 */
	uint64_t *coro_next; /* of each slot: who runs when the one that is there has ended */
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
				return error_wrap(err, "cannot read the program's wait reasons");
			text = *reason ? trace_text(reason) : text;
		}
		d->reasons[i] = texts_add(&d->texts, text, strlen(text));
		if (d->reasons[i] == TEXTS_FAILED)
			return &error_no_memory;
	}
	return NULL;
}

static struct error *must_check name_root(struct decoder *d, uint64_t entry, uint32_t *ret)
{
	struct go_frame frames[8];
	size_t n = pclntab_frames(d->functions, entry | STACK_PC_EXACT, frames, ARRAY_SIZE(frames));
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	strbuf_adds(&text, TRACE_CALL_PREFIX);
	strbuf_adds(&text, n ? frames[n - 1].function : "?");
	*ret = text.failed ? TEXTS_FAILED : texts_add(&d->texts, text.data, text.length);
	return *ret == TEXTS_FAILED ? &error_no_memory : NULL;
}

static struct error *must_check name_roots(struct decoder *d, const uint64_t *entries)
{
	struct error *err = NULL;

	for (size_t i = 0; !err && i < AGENT_MAX_ROOTS && entries[i]; i++) {
		uint64_t word = entries[i] | STACK_PC_EXACT;

		err = name_root(d, entries[i], &d->roots[i].text);
		if (!err)
			err = stacks_intern(d->stacks, &word, 1, &d->roots[i].stack);
	}
	return err;
}

struct error *decoder_create(struct target *t, const struct image *img, const struct golayout *lay,
			     const struct agent_shared *layout, const struct drain *drain,
			     struct decoder **ret)
{
	_cleanup_decoder_ struct decoder *d = calloc(1, sizeof(*d));
	struct error *err;

	if (!d)
		return &error_no_memory;
	d->functions = &img->functions;
	d->drain = drain;
	d->p_slots = layout->slots - AGENT_SPARE_SLOTS;
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
		err = read_reasons(d, t, lay);
	if (!err)
		err = name_roots(d, layout->places.root_entries);
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

/* At this pc the frame is not there yet or no more: the word at SP is the return address. */
static bool has_no_frame(const struct decoder *d, uint64_t pc)
{
	struct go_func f;

	return pclntab_find(d->functions, pc, &f) && pclntab_sp_delta(&f, pc) == 0;
}

static bool is_hidden(const struct decoder *d, uint64_t pc)
{
	for (size_t i = 0; i < ARRAY_SIZE(hidden_names); i++)
		if (in_range(&d->hidden[i], stack_pc_lookup(pc)))
			return true;
	return false;
}

/* A word where frames are missing becomes two. */
#define REPAIRED_WORDS (2 * DRAIN_STACK_WORDS)

/*
 * The words as the rest of gospect has them. A word from the stack pointer counts when the frame
 * before it was none; where a signal interrupted, the pc is not a return address.
 */
static size_t repair_words(const struct decoder *d, const uint64_t *words, size_t count,
			   uint64_t ret[REPAIRED_WORDS])
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

static struct error *must_check intern_stack(struct decoder *d, uint64_t number, uint32_t *ret)
{
	uint64_t words[DRAIN_STACK_WORDS], repaired[REPAIRED_WORDS];
	size_t count = drain_stack(d->drain, number, words), skip = 0, n;

	*ret = STACK_NONE;
	n = repair_words(d, words, count, repaired);
	while (skip + 1 < n && is_hidden(d, repaired[skip]))
		skip++;
	return n ? stacks_intern(d->stacks, repaired + skip, n - skip, ret) : NULL;
}

static struct error *must_check find_stack(struct decoder *d, uint64_t number, uint32_t *ret)
{
	struct error *err;

	*ret = STACK_NONE;
	if (!number || number > AGENT_TABLE_SLOTS)
		return NULL;
	*ret = d->stack_of[number];
	if (*ret != STACK_NONE)
		return NULL;
	err = intern_stack(d, number, ret);
	d->stack_of[number] = *ret;
	return err;
}

/* ---- events ---- */

static struct error *must_check take_text(struct decoder *d, const struct drain_text *text,
					  uint32_t *ret)
{
	*ret = texts_add(&d->texts, (const char *)text->bytes, text->length);
	return *ret == TEXTS_FAILED ? &error_no_memory : NULL;
}

/* g and, from the last number, the stack: what most records have. */
static struct error *must_check with_stack(struct decoder *d, struct trace_event *ev,
					   enum trace_kind kind, uint64_t stack)
{
	ev->kind = kind;
	return find_stack(d, stack, &ev->stack);
}

static struct error *must_check stw_begin(struct decoder *d, const struct drain_record *r,
					  struct trace_event *ev)
{
	const char *why = "unknown";
	struct error *err;

	if (d->has_stw_reasons && r->numbers[1] < ARRAY_SIZE(stw_reasons))
		why = stw_reasons[r->numbers[1]];
	err = find_text(d, why, &ev->text);
	return err ? err : with_stack(d, ev, TRACE_STW_BEGIN, r->numbers[2]);
}

static struct error *must_check start_worker(struct decoder *d, const struct drain_record *r,
					     struct trace_event ev[2], size_t *ret_count)
{
	uint64_t mode = r->numbers[1];

	ev[0].kind = TRACE_START;
	if (!mode || mode >= ARRAY_SIZE(worker_labels))
		return NULL;
	ev[1] = ev[0];
	ev[1].kind = TRACE_LABEL;
	*ret_count = 2;
	return find_text(d, worker_labels[mode], &ev[1].text);
}

/* A goroutine has ended, and another runs at once in its place. */
static void end(struct decoder *d, const struct drain_record *r, struct trace_event ev[3],
		size_t *ret_count)
{
	uint64_t next = d->coro_next[r->slot];

	ev[0].kind = TRACE_END;
	d->coro_next[r->slot] = 0;
	if (!next)
		return;
	ev[1] = ev[2] = ev[0];
	ev[1].kind = TRACE_UNBLOCK;
	ev[2].kind = TRACE_START;
	ev[1].g = ev[2].g = next;
	*ret_count = 3;
}

static struct error *must_check annotation(struct decoder *d, const struct drain_record *r,
					   struct trace_event *ev)
{
	struct error *err = NULL;

	ev->arg = r->numbers[1];
	ev->arg2 = r->kind == RECORD_TASK_BEGIN ? r->numbers[2] : 0;
	if (r->kind != RECORD_TASK_END)
		err = take_text(d, &r->texts[0], &ev->text);
	if (!err && r->kind == RECORD_LOG)
		err = take_text(d, &r->texts[1], &ev->text2);
	return err;
}

/* Records whose kind says it all, their events, and which of their numbers is the stack; 0: none.
 */
static const struct {
	enum trace_kind kind;
	uint8_t stack;
} plain_kinds[RECORDS] = {
	[RECORD_START] = {TRACE_START, 0},
	[RECORD_UNBLOCK] = {TRACE_UNBLOCK, 1},
	[RECORD_SYSCALL] = {TRACE_SYSCALL, 1},
	[RECORD_SYSCALL_EXIT] = {TRACE_SYSCALL_EXIT, 0},
	[RECORD_SYSCALL_NO_P] = {TRACE_SYSCALL_EXIT_NO_P, 0},
	[RECORD_THREAD_ENTER] = {TRACE_THREAD_ENTER, 0},
	[RECORD_THREAD_LEAVE] = {TRACE_THREAD_LEAVE, 0},
	[RECORD_P_START] = {TRACE_P_START, 0},
	[RECORD_P_STOP] = {TRACE_P_STOP, 0},
	[RECORD_P_STEAL] = {TRACE_P_STEAL, 0},
	[RECORD_STW_END] = {TRACE_STW_END, 0},
	[RECORD_GC_BEGIN] = {TRACE_GC_BEGIN, 1},
	[RECORD_GC_END] = {TRACE_GC_END, 0},
	[RECORD_ASSIST_BEGIN] = {TRACE_ASSIST_BEGIN, 1},
	[RECORD_ASSIST_END] = {TRACE_ASSIST_END, 0},
	[RECORD_SWEEP_BEGIN] = {TRACE_SWEEP_BEGIN, 1},
	[RECORD_CALL] = {TRACE_CALL, 0},
	[RECORD_RETURN] = {TRACE_RETURN, 0},
	[RECORD_TASK_BEGIN] = {TRACE_TASK_BEGIN, 3},
	[RECORD_TASK_END] = {TRACE_TASK_END, 2},
	[RECORD_REGION_BEGIN] = {TRACE_REGION_BEGIN, 2},
	[RECORD_REGION_END] = {TRACE_REGION_END, 2},
	[RECORD_LOG] = {TRACE_LOG, 2},
};

static void processor(const struct drain_record *r, struct trace_event *ev)
{
	ev->p = r->numbers[0] < UINT32_MAX ? r->numbers[0] : TRACE_NO_P;
	ev->g = 0;
}

static struct error *must_check scheduling(struct decoder *d, const struct drain_record *r,
					   struct trace_event *ev, size_t *ret_count)
{
	const uint64_t *n = r->numbers;

	switch (r->kind) {
	case RECORD_BLOCK:
		ev->text = d->reasons[n[2] % MAX_REASONS];
		return with_stack(d, ev, TRACE_BLOCK, n[1]);
	case RECORD_BLOCK_PREEMPT:
		ev->text = d->preempted;
		return with_stack(d, ev, TRACE_BLOCK, n[1]);
	case RECORD_YIELD:
		ev->text = d->gosched;
		return with_stack(d, ev, TRACE_YIELD, n[1]);
	case RECORD_PREEMPT:
		ev->text = d->preempted;
		return with_stack(d, ev, TRACE_YIELD, n[1]);
	case RECORD_CREATE:
		ev->arg = n[1] + d->text;
		return with_stack(d, ev, TRACE_CREATE, n[2]);
	case RECORD_CORO_SWITCH:
		ev->arg = n[1];
		return with_stack(d, ev, TRACE_CORO_SWITCH, n[2]);
	}
	*ret_count = 0;
	return NULL;
}

static struct error *must_check other(struct decoder *d, const struct drain_record *r,
				      struct trace_event *ev, size_t *ret_count)
{
	switch (r->kind) {
	case RECORD_START_WORKER:
		return start_worker(d, r, ev, ret_count);
	case RECORD_EXIT:
		end(d, r, ev, ret_count);
		return NULL;
	case RECORD_CORO_EXIT:
		d->coro_next[r->slot] = r->numbers[1];
		*ret_count = 0;
		return NULL;
	case RECORD_STW_BEGIN:
		return stw_begin(d, r, ev);
	case RECORD_SWEEP_END:
		ev->kind = TRACE_SWEEP_END;
		ev->arg = r->numbers[1];
		return NULL;
	case RECORD_LOST:
		ev->kind = TRACE_LOST;
		ev->g = 0;
		ev->arg = r->numbers[0];
		return NULL;
	}
	return scheduling(d, r, ev, ret_count);
}

/* By itself, unless it follows the goroutine's creation: who is known by its g, runs. */
static struct error *must_check labels(struct decoder *d, const struct drain_record *r,
				       struct trace_event *ev)
{
	bool created = d->created[r->slot] == r->numbers[0];

	ev->kind = TRACE_LABELS;
	ev->arg = created ? TRACE_LABELS_BY_ANOTHER : TRACE_LABELS_BY_ITSELF;
	return labels_of_record(&d->labels, r, &ev->text);
}

/* Of a function that requests are under; what it says of one that there is not, is nonsense. */
static void call(const struct decoder *d, const struct drain_record *r, struct trace_event *ev,
		 size_t *ret_count)
{
	uint64_t root = r->numbers[1];

	if (root >= AGENT_MAX_ROOTS || !d->roots[root].text) {
		*ret_count = 0;
		return;
	}
	ev->text = d->roots[root].text;
	ev->stack = d->roots[root].stack;
	ev->arg = r->numbers[2] ?: 1;
}

static struct error *must_check plain(struct decoder *d, const struct drain_record *r,
				      struct trace_event *ev, size_t *ret_count)
{
	uint8_t stack = plain_kinds[r->kind].stack;
	struct error *err = stack ? find_stack(d, r->numbers[stack], &ev->stack) : NULL;

	ev->kind = plain_kinds[r->kind].kind;
	if (r->kind >= RECORD_P_START && r->kind <= RECORD_P_STEAL)
		processor(r, ev);
	else if (r->kind == RECORD_CALL || r->kind == RECORD_RETURN)
		call(d, r, ev, ret_count);
	else if (!err && r->kind >= RECORD_TASK_BEGIN)
		err = annotation(d, r, ev);
	return err;
}

struct error *decoder_events(struct decoder *d, const struct drain_record *r, uint64_t ns,
			     struct trace_event ret[DECODE_MAX_EVENTS], size_t *ret_count)
{
	struct trace_event *ev = &ret[0];

	*ev = (struct trace_event){.ns = ns,
				   .m = r->thread ? r->thread : TRACE_NO_M,
				   .g = r->numbers[0],
				   .p = r->slot < d->p_slots ? r->slot : TRACE_NO_P};
	*ret_count = 1;
	if (r->kind >= RECORD_LABELS && r->kind < RECORDS)
		return labels(d, r, ev);
	d->created[r->slot] = r->kind == RECORD_CREATE ? r->numbers[0] : 0;
	if (r->kind < RECORD_LOST && plain_kinds[r->kind].kind)
		return plain(d, r, ev, ret_count);
	return other(d, r, ev, ret_count);
}
