/*
 * What each goroutine waits for.
 *
 * Channels and select: g.waiting is the first sudog, in all versions; each names its channel.
 * Semaphores (sync.Mutex, RWMutex, WaitGroup): g.waiting leads to the sudog in Go 1.27 alone;
 * in older versions the sudog is a local variable of runtime.semacquire1, which needs it after the
 * wait. So the words of the innermost frames are tried: one points to a sudog whose g is this
 * goroutine. A pollDesc is found likewise: its rg or wg is the goroutine.
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "waits/room.h"

/* The bytes of a stack that are read to search the innermost frames. */
#define INNER_BYTES 2048
#define MAX_WORDS 128
#define MAX_INLINED 64
/* sync.Cond in Go 1.17 to 1.27: L, an interface, then notify, then checker. */
enum { COND_NOTIFY = 16, COND_CHECKER = 48 };
/* sync.Mutex and sync.RWMutex, likewise. */
enum { MUTEX_SEMA = 4, RWMUTEX_WRITER_SEMA = 8, RWMUTEX_READER_SEMA = 12 };

enum way {
	WAY_NONE,
	WAY_CHANNEL,
	WAY_NIL_CHANNEL,
	WAY_NO_CASES,
	WAY_SEMAPHORE,
	WAY_COND,
	WAY_POLL,
	WAY_SLEEP,
	WAY_PROCESS,
	WAY_OTHER,
};

static bool begins(const char *s, const char *with)
{
	while (*with && *s == *with) {
		s++;
		with++;
	}
	return !*with;
}

static enum way way_of_reason(const char *reason)
{
	if (strstr(reason, "(nil chan)"))
		return WAY_NIL_CHANNEL;
	if (begins(reason, "select (no cases)"))
		return WAY_NO_CASES;
	if (begins(reason, "chan ") || begins(reason, "select"))
		return WAY_CHANNEL;
	if (begins(reason, "sync.Cond"))
		return WAY_COND;
	if (begins(reason, "sync.") || !strcmp(reason, "semacquire"))
		return WAY_SEMAPHORE;
	if (!strcmp(reason, "IO wait"))
		return WAY_POLL;
	return !strcmp(reason, "sleep") ? WAY_SLEEP : WAY_OTHER;
}

/* Whether a function is among the physical frames of a stack. */
static bool has_function(const struct wait_graph *w, uint32_t id, const char *const *names,
			 size_t count)
{
	struct stack stack = stacks_get(goroutine_set_stacks(w->set), id);
	struct go_func f;

	for (size_t i = 0; i < stack.count && i < WAITS_MAX_FRAMES; i++) {
		if (stack_pc_is_pseudo(stack.pcs[i]) ||
		    !pclntab_find(&w->img->functions, stack_pc_lookup(stack.pcs[i]), &f))
			continue;
		for (size_t k = 0; k < count; k++)
			if (!strcmp(f.name, names[k]))
				return true;
	}
	return false;
}

static enum way way_of(const struct wait_graph *w, const struct wait_goroutine *g)
{
	static const char *const process[] = {"os.(*Process).blockUntilWaitable",
					      "os.(*Process).pidfdWait", "os.(*Process).wait",
					      "os.(*Process).Wait", "os.(*Process).pidWait"};

	if (g->status == G_SYSCALL)
		return has_function(w, g->stack, process, ARRAY_SIZE(process)) ? WAY_PROCESS
									       : WAY_NONE;
	if (g->status != G_WAITING && g->status != G_LEAKED)
		return WAY_NONE;
	return way_of_reason(goroutine_set_wait_reason(w->set, g->reason));
}

static struct error *add_edge(struct wait_graph *w, size_t i, struct wait_edge edge)
{
	struct wait_goroutine *g = &w->goroutines[i];

	if (w->edge_count >= WAITS_MAX_EDGES) {
		w->truncated = true;
		return NULL;
	}
	if (!array_reserve(&w->edges, &w->edge_capacity, w->edge_count + 1))
		return &error_no_memory;
	edge.goroutine = i;
	if (!g->edge_count)
		g->first_edge = w->edge_count;
	g->edge_count++;
	w->edges[w->edge_count++] = edge;
	return NULL;
}

/* ---- channels ---- */

/* False: it cannot be read, or belongs to another goroutine. */
static bool read_sudog(const struct wait_graph *w, uint64_t address, uint64_t g,
		       uint8_t bytes[GOLAYOUT_WAIT_LIMIT])
{
	struct sudog_view v = {&w->lay->n, bytes};
	size_t size = golayout_sudog_bytes(&w->lay->n);

	if (!address || size > GOLAYOUT_WAIT_LIMIT ||
	    error_dropped(target_read(w->t, address, bytes, size)))
		return false;
	return sudog_view_g(v) == g;
}

static struct error *find_channels(struct wait_graph *w, size_t i)
{
	const char *reason = goroutine_set_wait_reason(w->set, w->goroutines[i].reason);
	uint64_t at = w->goroutines[i].waiting, g = w->goroutines[i].g;
	uint8_t bytes[GOLAYOUT_WAIT_LIMIT];
	struct sudog_view v = {&w->lay->n, bytes};
	bool is_select = begins(reason, "select");
	struct error *err = NULL;

	for (size_t n = 0; !err && at && read_sudog(w, at, g, bytes); n++) {
		struct wait_edge edge = {.kind = WAIT_CHANNEL,
					 .address = sudog_view_c(v),
					 .sudog = at,
					 .next = sudog_view_next(v),
					 .is_case = is_select};

		if (begins(reason, "chan receive"))
			edge.side = WAIT_RECEIVE;
		else if (begins(reason, "chan send"))
			edge.side = WAIT_SEND;
		if (n == WAITS_MAX_CASES) {
			w->truncated = true;
			break;
		}
		if (edge.address)
			err = add_edge(w, i, edge);
		at = is_select ? sudog_view_waitlink(v) : 0;
	}
	w->goroutines[i].partial = at != 0;
	return err;
}

/* ---- what lies in the innermost frames ---- */

static bool is_waiting_function(const char *name)
{
	return begins(name, "runtime.") || begins(name, "sync.runtime_") ||
	       begins(name, "internal/sync.runtime_") || begins(name, "internal/poll.runtime_");
}

static bool may_point(uint64_t word)
{
	return word >= 4096 && word < 1ull << 47 && !(word & 7);
}

/* The words of a frame that may be pointers. */
static size_t words_of_frame(const struct wait_stack *s, const struct frame *f, uint64_t *words,
			     size_t count)
{
	uint64_t word;

	for (uint64_t at = f->sp; at < f->cfa && count < MAX_WORDS; at += 8)
		if (wait_stack_word(s, at, &word) && may_point(word))
			words[count++] = word;
	return count;
}

static size_t inner_words(const struct wait_graph *w, const struct wait_stack *s,
			  uint64_t words[MAX_WORDS])
{
	size_t count = 0;
	struct go_func f;

	for (size_t i = 0; i < s->frames.count; i++) {
		const struct frame *frame = &s->frames.items[i];

		if (!pclntab_find(&w->img->functions, stack_pc_lookup(frame->word), &f))
			break;
		count = words_of_frame(s, frame, words, count);
		/* A function keeps its arguments in the frame of its caller. */
		if (!is_waiting_function(f.name))
			break;
	}
	return count;
}

/* Reads the objects that the words point to, `size` bytes each; `ok` marks those that could be
 * read. */
static struct error *read_objects(const struct wait_graph *w, const uint64_t *words, size_t count,
				  size_t size, uint8_t *bytes, bool *ok)
{
	struct target_range ranges[MAX_WORDS + 1];

	memset(ok, 0, count * sizeof(*ok));
	for (size_t i = 0; i < count; i++)
		ranges[i] = (struct target_range){words[i], size, bytes + i * size};
	return count ? target_read_each(w->t, ranges, count, ok) : NULL;
}

/* The semaphore that a goroutine waits for, or the notifyList of a sync.Cond; 0: not found. */
static struct error *find_sudog(const struct wait_graph *w, const struct wait_goroutine *g,
				const struct wait_stack *s, uint64_t *ret_sudog,
				uint64_t *ret_element, bool *ret_found)
{
	size_t size = golayout_sudog_bytes(&w->lay->n), count;
	_cleanup_free_ uint8_t *bytes = malloc((MAX_WORDS + 1) * size);
	uint64_t words[MAX_WORDS + 1] = {g->waiting};
	bool ok[MAX_WORDS + 1];
	struct error *err;

	*ret_found = false;
	if (!bytes)
		return &error_no_memory;
	count = 1 + inner_words(w, s, words + 1);
	err = read_objects(w, words, count, size, bytes, ok);
	for (size_t i = 0; !err && i < count && !*ret_found; i++) {
		struct sudog_view v = {&w->lay->n, bytes + i * size};

		if (!ok[i] || !may_point(words[i]) || sudog_view_g(v) != g->g || sudog_view_c(v))
			continue;
		*ret_sudog = words[i];
		*ret_element = sudog_view_elem(v);
		*ret_found = true;
	}
	return err;
}

/* ---- semaphores ---- */

/* The address of the sync.WaitGroup with this semaphore. In Go 1.17 it has 12 bytes, of which 8 are
 * aligned; later it has the state, then the semaphore. */
static uint64_t waitgroup_of(int minor, uint64_t sema)
{
	return minor == 17 && sema & 7 ? sema : sema - 8;
}

static bool is_mutex(const char *name)
{
	const char *of = begins(name, "internal/") ? name + strlen("internal/") : name;

	return begins(of, "sync.(*Mutex).");
}

/* The kind of object of package sync that a semaphore belongs to, from the functions on the stack.
 */
static struct wait_edge edge_of_semaphore(const struct wait_graph *w,
					  const struct wait_goroutine *g, uint64_t sema)
{
	struct stack stack = stacks_get(goroutine_set_stacks(w->set), g->stack);
	struct wait_edge edge = {.kind = WAIT_SEMAPHORE, .address = sema};

	for (size_t i = 0; i < stack.count && i < WAITS_MAX_FRAMES; i++) {
		struct go_frame frames[MAX_INLINED];
		size_t n = stack_pc_is_pseudo(stack.pcs[i])
				   ? 0
				   : pclntab_frames(&w->img->functions, stack.pcs[i], frames,
						    MAX_INLINED);

		for (size_t k = 0; k < n; k++) {
			const char *name = frames[k].function;
			bool within = edge.kind == WAIT_MUTEX;

			if (is_mutex(name)) {
				edge.kind = WAIT_MUTEX;
				edge.address = sema - MUTEX_SEMA;
			} else if (begins(name, "sync.(*RWMutex).RLock")) {
				return (struct wait_edge){.kind = WAIT_RWMUTEX,
							  .address = sema - RWMUTEX_READER_SEMA,
							  .side = WAIT_READ};
			} else if (begins(name, "sync.(*RWMutex).Lock")) {
				return (struct wait_edge){.kind = WAIT_RWMUTEX,
							  .address = sema -
								     (within ? MUTEX_SEMA
									     : RWMUTEX_WRITER_SEMA),
							  .side = WAIT_WRITE,
							  .is_pending = !within};
			} else if (begins(name, "sync.(*WaitGroup).Wait")) {
				return (struct wait_edge){.kind = WAIT_WAITGROUP,
							  .address = waitgroup_of(w->lay->minor,
										  sema)};
			} else if (!is_waiting_function(name)) {
				return edge;
			}
		}
	}
	return edge;
}

static struct error *find_semaphore(struct wait_graph *w, size_t i)
{
	const struct wait_goroutine *g = &w->goroutines[i];
	_cleanup_wait_stack_ struct wait_stack s = {0};
	uint64_t sudog = 0, sema = 0;
	struct wait_edge edge;
	bool ok;
	struct error *err = wait_stack_read(w, g, INNER_BYTES, &s, &ok);

	if (!err)
		err = find_sudog(w, g, &s, &sudog, &sema, &ok);
	if (err)
		return err;
	if (!ok || !sema)
		return NULL;
	edge = edge_of_semaphore(w, g, sema);
	edge.sudog = sudog;
	return add_edge(w, i, edge);
}

/* ---- sync.Cond ---- */

/* A sync.Cond that was used contains its own address: copyChecker in sync/cond.go. */
static struct error *cond_among(const struct wait_graph *w, const uint64_t *words, size_t count,
				uint64_t *ret)
{
	uint64_t at[MAX_WORDS], checkers[MAX_WORDS];
	bool ok[MAX_WORDS];
	struct error *err;

	for (size_t i = 0; i < count; i++)
		at[i] = words[i] + COND_CHECKER;
	err = read_objects(w, at, count, sizeof(*checkers), (uint8_t *)checkers, ok);
	for (size_t i = 0; !err && i < count && !*ret; i++)
		if (ok[i] && checkers[i] == at[i])
			*ret = words[i];
	return err;
}

/* The first argument lies in the frame of the caller, on arm64 behind the place of LR. */
static size_t add_argument(const struct wait_graph *w, const struct wait_stack *s,
			   const struct frame *f, uint64_t *words, size_t count)
{
	uint64_t at = f->cfa + (w->img->machine == MACHINE_ARM64 ? 8 : 0), word;

	if (count < MAX_WORDS && wait_stack_word(s, at, &word) && may_point(word))
		words[count++] = word;
	return count;
}

/* In the frame of sync.(*Cond).Wait, or where that gets its argument. */
static struct error *cond_on_stack(const struct wait_graph *w, const struct wait_stack *s,
				   uint64_t *ret)
{
	struct error *err = NULL;
	struct go_func f;

	for (size_t i = 0; !err && i < s->frames.count && !*ret; i++) {
		const struct frame *frame = &s->frames.items[i];
		uint64_t words[MAX_WORDS];
		size_t count;

		if (!pclntab_find(&w->img->functions, stack_pc_lookup(frame->word), &f) ||
		    is_waiting_function(f.name))
			continue;
		count = words_of_frame(s, frame, words, 0);
		count = add_argument(w, s, frame, words, count);
		err = cond_among(w, words, count, ret);
		/* Only the frame of sync.(*Cond).Wait, or of the function that it was inlined into.
		 */
		break;
	}
	return err;
}

static struct error *find_cond(struct wait_graph *w, size_t i)
{
	const struct wait_goroutine *g = &w->goroutines[i];
	_cleanup_wait_stack_ struct wait_stack s = {0};
	uint64_t sudog = 0, list = 0, cond = 0;
	bool ok;
	struct error *err = wait_stack_read(w, g, INNER_BYTES, &s, &ok);

	if (!err)
		err = find_sudog(w, g, &s, &sudog, &list, &ok);
	if (!err && ok && list)
		cond = list - COND_NOTIFY;
	else if (!err)
		err = cond_on_stack(w, &s, &cond);
	if (err)
		return err;
	if (!cond)
		return NULL;
	return add_edge(w, i,
			(struct wait_edge){.kind = WAIT_COND, .address = cond, .sudog = sudog});
}

/* ---- the network, and the rest ---- */

static struct error *find_poll(struct wait_graph *w, size_t i)
{
	const struct wait_goroutine *g = &w->goroutines[i];
	_cleanup_wait_stack_ struct wait_stack s = {0};
	size_t size = golayout_poll_bytes(&w->lay->n), count;
	_cleanup_free_ uint8_t *bytes = malloc(MAX_WORDS * size);
	uint64_t words[MAX_WORDS], found = 0;
	enum wait_side side = WAIT_ANY;
	bool ok[MAX_WORDS], read;
	struct error *err = wait_stack_read(w, g, INNER_BYTES, &s, &read);

	if (err || !bytes)
		return err ? err : &error_no_memory;
	count = inner_words(w, &s, words);
	err = read_objects(w, words, count, size, bytes, ok);
	for (size_t k = 0; !err && k < count && !found; k++) {
		struct poll_view v = {&w->lay->n, bytes + k * size};

		if (!ok[k] || (poll_view_rg(v) != g->g && poll_view_wg(v) != g->g))
			continue;
		found = words[k];
		side = poll_view_rg(v) == g->g ? WAIT_READ : WAIT_WRITE;
	}
	if (err)
		return err;
	return add_edge(w, i,
			(struct wait_edge){.kind = WAIT_NETWORK, .address = found, .side = side});
}

static struct error *find_one(struct wait_graph *w, size_t i)
{
	struct wait_goroutine *g = &w->goroutines[i];
	enum way way = way_of(w, g);

	if (way == WAY_NONE)
		return NULL;
	g->place = wait_place_of(w, g->stack);
	switch (way) {
	case WAY_CHANNEL:
		return find_channels(w, i);
	case WAY_NIL_CHANNEL:
		return add_edge(w, i, (struct wait_edge){.kind = WAIT_CHANNEL});
	case WAY_NO_CASES:
		return add_edge(w, i, (struct wait_edge){.kind = WAIT_SELECT});
	case WAY_SEMAPHORE:
		return find_semaphore(w, i);
	case WAY_COND:
		return find_cond(w, i);
	case WAY_POLL:
		return find_poll(w, i);
	case WAY_SLEEP:
		return add_edge(w, i, (struct wait_edge){.kind = WAIT_TIMER, .address = g->timer});
	case WAY_PROCESS:
		return add_edge(w, i, (struct wait_edge){.kind = WAIT_PROCESS});
	default:
		return add_edge(w, i, (struct wait_edge){.kind = WAIT_OTHER, .next = g->reason});
	}
}

struct error *wait_graph_find(struct wait_graph *w)
{
	struct error *err = NULL;

	for (size_t i = 0; !err && i < w->count; i++) {
		struct wait_goroutine *g = &w->goroutines[i];

		if (!g->changed)
			continue;
		g->changed = false;
		g->edge_count = 0;
		if (w->options.stop && atomic_load(w->options.stop))
			return &error_stopped;
		if (g->alive && (!g->system || w->options.system))
			err = find_one(w, i);
	}
	return err;
}
