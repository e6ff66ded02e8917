#include "oncpu/sampler.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/map.h"
#include "oncpu/cpu_sample.h"
#include "oncpu/go_threads.h"
#include "oncpu/perf_events.h"
#include "oncpu/waits.h"
#include "unwind/running_thread.h"
#include "unwind/thread_work.h"

/*
 * Bytes of the stack in a sample. From Go 1.21 on, all frames on amd64 except the innermost have a
 * frame record, so the callchain has the rest exactly. C frames and old assembly may lack a record,
 * and .debug_frame does not use the callchain. If the runtime moves stacks and no snapshot shows
 * that, the sample must reach the outermost frames of a thread's own stack. These are some 1.5 KB
 * away when the thread marks.
 */
enum { STACK_BYTES_GO = 1024, STACK_BYTES_OWN = 2048, STACK_BYTES_ANY = 8192 };
/* The most buckets, 25 MB. Samples of further stacks and labels are left out. */
#define MOST_BUCKETS (1u << 18)
/* If a program creates threads all the time, gospect stops trying to open events for all of
 * them. */
#define MAX_OPENINGS 10
/* The most g's that are kept, 4 MB: others are looked at again. */
#define MOST_KNOWN (1u << 17)

struct oncpu_sampler {
	struct target *t;
	const struct image *img;
	const struct golayout *lay;
	struct goroutine_set *set; /* NULL: see options.sampled */
	struct stacks *stacks;
	struct map goroutines; /* without a set: g's that are goroutines' */
	struct perf_events *events;
	struct sample_program *program;            /* NULL: the kernel does not run it */
	struct error *no_program;                  /* why */
	struct map known_threads;                  /* tid -> the m that the program has for it */
	struct served_place places[SERVED_PLACES]; /* that the program has */
	struct waits *waits;                       /* NULL: waits are not seen */
	struct oncpu_options options;
	struct oncpu_stats stats;
	struct cpu_bucket *buckets;
	size_t count;
	size_t capacity;
	struct map index; /* hash of a bucket -> its place + 1 */
	struct map kinds; /* stack -> enum stack_kind + 1 */
	struct go_threads threads;
	struct modules *modules;
	struct running_unwinder *unwinder;
	/* For the sample being unwound. */
	pid_t tid;
	uint64_t g; /* the goroutine whose bytes were read; 0: none */
	uint8_t g_bytes[GOLAYOUT_G_LIMIT];
	size_t g_size;                       /* golayout_g_bytes() */
	const struct cpu_sample *cpu_sample; /* NULL: none */
	struct sampled_goroutine parked;
};

static struct error *list_threads(struct target *t, pid_t **ret, size_t *ret_count)
{
	_cleanup_free_ struct target_thread *threads = NULL;
	struct error *err = target_threads(t, &threads, ret_count);
	pid_t *tids;

	if (err)
		return err;
	tids = calloc(*ret_count + 1, sizeof(*tids));
	if (!tids)
		return &error_no_memory;
	for (size_t i = 0; i < *ret_count; i++)
		tids[i] = threads[i].id;
	*ret = tids;
	return NULL;
}

/* Whether all of `some` are among `all`. */
static bool has_all(const pid_t *all, size_t all_count, const pid_t *some, size_t some_count)
{
	for (size_t i = 0; i < some_count; i++) {
		size_t k = 0;

		while (k < all_count && all[k] != some[i])
			k++;
		if (k == all_count)
			return false;
	}
	return true;
}

/*
 * A thread inherits the events of its creator. If a thread without events creates another one while
 * gospect opens events, that one would never be seen. Then all events are opened again.
 */
static struct error *open_all_events(struct oncpu_sampler *s, const struct perf_options *options)
{
	for (int i = 0; i < MAX_OPENINGS; i++) {
		_cleanup_free_ pid_t *before = NULL, *after = NULL;
		size_t count_before, count_after;
		struct error *err = list_threads(s->t, &before, &count_before);

		perf_events_close(take_ptr(s->events));
		if (!err)
			err = perf_events_open(target_pid(s->t), before, count_before, options,
					       &s->events);
		if (!err)
			err = list_threads(s->t, &after, &count_after);
		if (err || has_all(before, count_before, after, count_after))
			return err;
	}
	return NULL;
}

static struct error *open_events(struct oncpu_sampler *s, const struct perf_options *options)
{
	if (!s->options.threads)
		return open_all_events(s, options);
	return perf_events_open(target_pid(s->t), s->options.threads, s->options.thread_count,
				options, &s->events);
}

/* See running_stale_stack.c. */
static bool stacks_move(const struct golayout *lay)
{
	return lay->minor <= 25;
}

static size_t needed_bytes(const struct oncpu_sampler *s)
{
	enum unwind_method method = stacks_unwinding(s->stacks)->method;
	struct go_func f;

	if (method == UNWIND_DWARF || s->img->machine != MACHINE_AMD64 || s->lay->minor < 21 ||
	    pclntab_find_name(&s->img->functions, "crosscall2", &f))
		return STACK_BYTES_ANY;
	return stacks_move(s->lay) && !s->program ? STACK_BYTES_OWN : STACK_BYTES_GO;
}

static size_t stack_bytes(const struct oncpu_sampler *s)
{
	size_t needed = needed_bytes(s), wanted = s->options.stack_bytes;

	if (wanted > PERF_MOST_STACK)
		wanted = PERF_MOST_STACK;
	return needed > wanted ? needed : (wanted + 7) & ~(size_t)7;
}

/* The program keeps each m, so each is set once. */
static void update_program(struct oncpu_sampler *s, pid_t tid)
{
	uint64_t m = go_threads_m(&s->threads, tid);
	uint64_t *known = m ? map_at(&s->known_threads, tid) : NULL;

	if (!known || *known == m)
		return;
	*known = m;
	sample_program_set_m(s->program, tid, m);
}

/* Later threads are added when they are first sampled. */
static void open_program(struct oncpu_sampler *s)
{
	_cleanup_free_ pid_t *tids = NULL;
	size_t count = 0;

	s->no_program = sample_program_open(s->lay, s->img->machine, &s->program);
	if (s->no_program || error_dropped(list_threads(s->t, &tids, &count)))
		return;
	for (size_t i = 0; i < count; i++)
		update_program(s, tids[i]);
}

/* Opens the events, with the program where permitted. */
static struct error *open_with_program(struct oncpu_sampler *s, struct perf_options *perf)
{
	struct perf_program program;

	if (s->options.sample_program)
		open_program(s);
	perf->stack_size = stack_bytes(s);
	if (s->program) {
		program = (struct perf_program){sample_program_fd(s->program),
						sample_program_outputs(s->program)};
		perf->program = &program;
	}
	return open_events(s, perf);
}

static struct error *create_unwinder(struct oncpu_sampler *s)
{
	s->unwinder =
		running_unwinder_create(s->stacks, &s->img->functions, s->img->machine, s->modules);
	if (!s->unwinder)
		return &error_no_memory;
	running_unwinder_read_code(s->unwinder, s->img);
	if (stacks_move(s->lay))
		running_unwinder_expect_moves(s->unwinder);
	return NULL;
}

struct error *oncpu_sampler_open(struct target *t, const struct image *img,
				 const struct golayout *lay, struct goroutine_set *set,
				 const struct oncpu_options *options, struct oncpu_sampler **ret)
{
	_cleanup_oncpu_sampler_ struct oncpu_sampler *s = calloc(1, sizeof(*s));
	struct perf_options perf = {
		.hz = options->hz,
		.machine = img->machine,
		.kernel = options->kernel,
		.switches = options->waits,
	};
	struct error *err;

	if (!s)
		return &error_no_memory;
	s->t = t;
	s->img = img;
	s->lay = lay;
	s->g_size = golayout_g_bytes(&lay->n);
	s->set = set;
	s->stacks = set ? goroutine_set_stacks(set) : options->stacks;
	s->options = *options;
	s->threads = (struct go_threads){.t = t, .lay = lay};
	err = open_with_program(s, &perf);
	s->options.threads = NULL;
	if (!err)
		err = modules_open(t, img->machine, &s->modules);
	if (err)
		return err;
	err = create_unwinder(s);
	if (err)
		return err;
	if (perf_events_see_switches(s->events))
		s->waits = waits_create();
	if (!s->waits && perf_events_see_switches(s->events))
		return &error_no_memory;
	s->stats.period_ns = perf_events_period(s->events);
	s->stats.sees_kernel = perf_events_see_kernel(s->events);
	*ret = take_ptr(s);
	return NULL;
}

void oncpu_sampler_close(struct oncpu_sampler *s)
{
	if (!s)
		return;
	perf_events_close(s->events);
	sample_program_close(s->program);
	error_destroy(s->no_program);
	map_release(&s->known_threads);
	map_release(&s->goroutines);
	waits_destroy(s->waits);
	free(s->buckets);
	map_release(&s->index);
	map_release(&s->kinds);
	go_threads_release(&s->threads);
	running_unwinder_destroy(s->unwinder);
	modules_close(s->modules);
	free(s);
}

static bool read_memory(void *arg, uint64_t address, void *buffer, size_t size)
{
	struct oncpu_sampler *s = arg;

	return !error_dropped(target_read(s->t, address, buffer, size));
}

/* A goroutine on which C calls Go has no start function; it is its thread's. */
static bool is_of_callback(const struct oncpu_sampler *s, uint64_t g, uint64_t m)
{
	uint64_t curg;

	return m && !error_dropped(target_read_u64(s->t, m_at_curg(&s->lay->n, m), &curg)) &&
	       curg == g;
}

/* The g is a goroutine's for ever, because the runtime never frees it. C code may leave anything in
 * the register of the g, and no other memory passes for one. */
static bool passes_for_goroutine(const struct oncpu_sampler *s, uint64_t address, struct g_view g)
{
	uint64_t size = g_view_stack_hi(g) - g_view_stack_lo(g), start = g_view_startpc(g);
	struct go_func f;

	if (!g_view_goid(g) || g_view_stack_hi(g) <= g_view_stack_lo(g) || size & (size - 1))
		return false;
	return start ? pclntab_find(&s->img->functions, start, &f) && f.entry == start
		     : is_of_callback(s, address, g_view_lockedm(g));
}

/* Whether this is a goroutine's g; it may be g0, gsignal or anything else. */
static bool is_goroutine(struct oncpu_sampler *s, uint64_t g)
{
	uint8_t bytes[GOLAYOUT_G_LIMIT];
	size_t place;
	uint64_t *known;

	if (s->set)
		return goroutine_set_find(s->set, g, &place);
	if (map_find(&s->goroutines, g))
		return true;
	if (!g || error_dropped(target_read(s->t, g, bytes, s->g_size)) ||
	    !passes_for_goroutine(s, g, (struct g_view){&s->lay->n, bytes}))
		return false;
	if (s->goroutines.count >= MOST_KNOWN)
		map_release(&s->goroutines);
	known = map_at(&s->goroutines, g);
	return known && (*known = 1);
}

static struct goroutine_place place_in(struct g_view g)
{
	return (struct goroutine_place){
		.stack_lo = g_view_stack_lo(g),
		.stack_hi = g_view_stack_hi(g),
		.pc = g_view_sched_pc(g),
		.sp = g_view_sched_sp(g),
		.lr = g_view_sched_lr(g),
		.start_pc = g_view_startpc(g),
		.ran = g_view_tracking_seq(g),
	};
}

static bool read_goroutine(void *arg, uint64_t g, struct goroutine_place *ret)
{
	struct oncpu_sampler *s = arg;

	s->g = 0;
	if (!is_goroutine(s, g) || error_dropped(target_read(s->t, g, s->g_bytes, s->g_size)))
		return false;
	s->g = g;
	*ret = place_in((struct g_view){&s->lay->n, s->g_bytes});
	return true;
}

static bool read_thread_sp(void *arg, uint64_t *ret)
{
	struct oncpu_sampler *s = arg;

	return go_threads_own_sp(&s->threads, s->tid, ret);
}

static uint64_t bucket_hash(const struct cpu_bucket *b)
{
	return hash_u64(hash_u64(b->start_pc ^ (uint64_t)b->labels << 32) + b->stack) >> 1;
}

/* The index entry of the bucket: its index + 1, or 0 for a new one, with its key. NULL: no
 * memory. */
static uint64_t *place_of(struct oncpu_sampler *s, const struct cpu_bucket *b, uint64_t *ret_key)
{
	for (*ret_key = bucket_hash(b);; ++*ret_key) {
		uint64_t *place = map_at(&s->index, *ret_key);
		const struct cpu_bucket *have;

		if (!place || !*place)
			return place;
		have = &s->buckets[*place - 1];
		if (have->start_pc == b->start_pc && have->labels == b->labels &&
		    have->stack == b->stack)
			return place;
	}
}

/* Adds to the bucket of the same stack and labels. */
static struct error *count(struct oncpu_sampler *s, const struct cpu_bucket *b)
{
	uint64_t key, *place = place_of(s, b, &key);
	struct cpu_bucket *have;

	if (!place)
		return &error_no_memory;
	if (!*place && s->count >= MOST_BUCKETS) {
		map_remove(&s->index, key);
		s->stats.crowded++;
		return NULL;
	}
	if (!*place) {
		if (!array_reserve(&s->buckets, &s->capacity, s->count + 1))
			return &error_no_memory;
		s->buckets[s->count++] = *b;
		*place = s->count;
		return NULL;
	}
	have = &s->buckets[*place - 1];
	have->count += b->count;
	have->waits += b->waits;
	have->waited_ns += b->waited_ns;
	return NULL;
}

/* Takes the program's output for this sample if it is about a known goroutine. */
static void take_cpu_sample(struct oncpu_sampler *s, const struct perf_sample *sample)
{
	const struct cpu_sample *m = sample->note;
	size_t above;

	s->cpu_sample = NULL;
	if (!m || !cpu_sample_is_whole(m, sample->note_size) || !is_goroutine(s, m->g))
		return;
	s->cpu_sample = m;
	s->parked = (struct sampled_goroutine){
		.g = m->g,
		.place = {m->stack_lo, m->stack_hi, m->sched_pc, m->sched_sp, m->sched_lr,
			  m->startpc, m->ran},
		.left_fp = m->left_fp,
		.bytes = m->parked,
		.size = m->parked_size,
	};
	above = m->stack_hi - m->sched_sp;
	if (above < s->parked.size)
		s->parked.size = above;
}

/* In Go code the g register has the goroutine, except on a system stack, where it is g0 or gsignal.
 */
static struct error *unwind(struct oncpu_sampler *s, const struct perf_sample *sample,
			    struct running_stack *ret)
{
	const struct running_source source = {read_memory, read_goroutine, read_thread_sp, s};
	struct running_sample in = {
		.regs = sample->regs,
		.bytes = sample->stack,
		.size = sample->stack_size,
		.chain = sample->chain,
		.chain_count = sample->chain_count,
	};

	take_cpu_sample(s, sample);
	if (s->program && !s->cpu_sample)
		update_program(s, sample->tid);
	in.sampled = s->cpu_sample ? &s->parked : NULL;
	in.g = sample->regs.value[register_roles(s->img->machine)->g];
	in.g_is_certain = is_goroutine(s, in.g);
	if (!in.g_is_certain)
		in.g = s->cpu_sample ? s->cpu_sample->g
				     : go_threads_goroutine(&s->threads, sample->tid);
	s->tid = sample->tid;
	s->g = 0;
	return running_unwind(s->unwinder, &in, &source, ret);
}

/* The goroutine's state by its stack; the innermost function with a known meaning decides. */
enum stack_kind { STACK_UNDECIDED, STACK_PLAIN, STACK_IN_SYSCALL };

/* Inside these functions the goroutine is in state syscall, unless C has called back. Raw system
 * calls do not change the state. */
static enum stack_kind kind_of_function(const char *name)
{
	static const char *const syscalls[] = {"syscall.Syscall", "syscall.Syscall6",
					       "runtime.cgocall", "runtime.notetsleepg"};

	if (!strcmp(name, "runtime.cgocallbackg"))
		return STACK_PLAIN;
	for (size_t i = 0; i < ARRAY_SIZE(syscalls); i++)
		if (!strcmp(name, syscalls[i]))
			return STACK_IN_SYSCALL;
	return STACK_UNDECIDED;
}

static enum stack_kind kind_of(struct oncpu_sampler *s, uint32_t id)
{
	struct stack stack = stacks_get(s->stacks, id);
	uint64_t *kind = map_at(&s->kinds, id);
	enum stack_kind found = STACK_UNDECIDED;
	struct go_func f;

	if (kind && *kind)
		return *kind - 1;
	for (uint32_t i = 0; !found && i < stack.count; i++)
		if (!stack_pc_is_pseudo(stack.pcs[i]) &&
		    pclntab_find(&s->img->functions, stack_pc_lookup(stack.pcs[i]), &f))
			found = kind_of_function(f.name);
	if (kind)
		*kind = found + 1;
	return found;
}

/* The same stack with the kernel's frames inside. */
static struct error *add_kernel(struct oncpu_sampler *s, const struct perf_sample *sample,
				struct running_stack *stack)
{
	struct stack user = stacks_get(s->stacks, stack->stack);
	_cleanup_free_ uint64_t *words = NULL;
	size_t n = 0;

	if (!sample->kernel_count || stack->stack == STACK_NONE)
		return NULL;
	words = calloc(sample->kernel_count + user.count, sizeof(*words));
	if (!words)
		return &error_no_memory;
	for (size_t i = 0; i < sample->kernel_count; i++)
		if (stack_pc_is_kernel(sample->kernel[i]))
			words[n++] = sample->kernel[i] & ~(i ? STACK_PC_EXACT : 0);
	if (user.count)
		memcpy(words + n, user.pcs, user.count * sizeof(*words));
	return stacks_intern(s->stacks, words, n + user.count, &stack->stack);
}

static void count_result(struct oncpu_sampler *s, const struct running_stack *stack)
{
	if (stack->stack == STACK_NONE)
		s->stats.unknown++;
	else if (stack->truncated)
		s->stats.truncated++;
	else
		s->stats.unwound++;
	s->stats.by_chain += stack->used_chain;
	s->stats.by_memory += stack->used_memory;
}

/* Takes a sample of a thread that works for no goroutine. */
static struct error *take_no_goroutine(struct oncpu_sampler *s, const struct running_stack *stack)
{
	struct stack words = stacks_get(s->stacks, stack->exact);
	struct cpu_bucket b = {.count = 1, .is_marked = true};
	struct error *err;

	s->stats.scheduler++;
	if (!s->options.no_goroutine || s->options.goid)
		return NULL;
	err = work_mark(s->stacks, stack->stack, work_of_thread(&s->img->functions, &words),
			&b.stack);
	return err ? err : count(s, &b);
}

/* Marks the runtime's own goroutines, if they are to be distinguished. */
static struct error *mark_system(struct oncpu_sampler *s, uint32_t exact, struct cpu_bucket *b)
{
	struct stack words = stacks_get(s->stacks, exact);

	if (!s->options.mark_system || !goroutine_set_system_flag(s->set, b->start_pc, exact))
		return NULL;
	b->is_marked = true;
	return work_mark(s->stacks, b->stack, work_of_goroutine(&s->img->functions, &words),
			 &b->stack);
}

static struct goroutine_memory memory_of(const struct oncpu_sampler *s,
					 const struct perf_sample *sample)
{
	const struct register_roles *roles = register_roles(s->img->machine);
	const uint64_t *value = sample->regs.value;
	struct goroutine_memory m = {.has_general = true};

	m.registers.pc = m.memory.pc = value[roles->pc];
	m.registers.sp = m.memory.sp = value[roles->sp];
	m.registers.fp = m.memory.fp = value[roles->fp];
	if (s->img->machine == MACHINE_ARM64)
		m.registers.lr = m.memory.lr = value[roles->lr];
	memcpy(m.registers.general, value, sizeof(m.registers.general));
	m.memory.exact_pc = true;
	m.memory.bytes = sample->stack;
	m.memory.size = sample->stack_size;
	return m;
}

static void deliver(struct oncpu_sampler *s, const struct perf_sample *sample, uint64_t goid,
		    const struct running_stack *stack)
{
	const struct oncpu_sighting sighting = {sample->time,     goid,
						stack->stack,     stack->exact,
						stack->truncated, memory_of(s, sample)};

	if (s->options.seen && goid)
		s->options.seen(s->options.arg, &sighting);
}

/* The identity as of the sample, if known. */
static bool identify(struct oncpu_sampler *s, const struct running_stack *stack,
		     struct goroutine_identity *ret)
{
	const struct g_view own = {&s->lay->n, s->g_bytes};
	struct target_range pieces[CPU_SAMPLE_PIECES];
	const struct cpu_sample *m = s->cpu_sample;
	uint64_t g = stack->g;
	bool maps = goroutine_set_labels(s->set)->maps, is_of_sample = m && m->g == g, found;
	struct goroutine_copy copy;

	if (is_of_sample)
		copy = (struct goroutine_copy){.goid = m->goid,
					       .start_pc = m->startpc,
					       .labels = m->labels,
					       .pieces = pieces,
					       .piece_count =
						       cpu_sample_label_pieces(m, maps, pieces),
					       .served = m->served,
					       .stack = stack->exact,
					       .stack_end = m->stack_hi};
	else if (g == s->g)
		copy = (struct goroutine_copy){.goid = g_view_goid(own),
					       .start_pc = g_view_startpc(own),
					       .labels = g_view_labels(own)};
	found = goroutine_set_identify(s->set, g, is_of_sample || g == s->g ? &copy : NULL, ret);
	s->stats.labels_late += found && !is_of_sample && ret->labels != LABELS_NONE;
	return found;
}

/* The bucket of a goroutine's stack; false: it is not requested. */
static bool find_bucket(struct oncpu_sampler *s, const struct running_stack *stack,
			struct cpu_bucket *b, uint64_t *ret_goid)
{
	struct goroutine_identity who = {0};

	if (stack->g && !identify(s, stack, &who))
		return false;
	if (s->options.goid && s->options.goid != who.goid)
		return false;
	b->start_pc = stack->start_pc;
	b->labels = who.labels;
	b->stack = stack->stack;
	b->in_syscall = kind_of(s, stack->exact) == STACK_IN_SYSCALL;
	*ret_goid = who.goid;
	return true;
}

static bool is_nobodys(const struct running_stack *stack)
{
	return stack->is_scheduler || (!stack->g && !stack->start_pc);
}

/* Hands the sample over as it is. */
static struct error *hand_over(struct oncpu_sampler *s, const struct perf_sample *sample,
			       const struct running_stack *stack)
{
	struct stack words = stacks_get(s->stacks, stack->exact);
	struct oncpu_thread_sample given = {
		.time = sample->time,
		.thread = go_threads_procid(&s->threads, sample->tid),
		.start_pc = stack->start_pc,
		.stack = stack->stack,
		.no_goroutine = stack->stack != STACK_NONE && is_nobodys(stack),
	};
	const uint64_t unknown = STACK_PC_UNKNOWN;
	struct error *err = NULL;

	if (stack->stack == STACK_NONE)
		err = stacks_intern(s->stacks, &unknown, 1, &given.stack);
	if (given.no_goroutine)
		err = work_mark(s->stacks, stack->stack, work_of_thread(&s->img->functions, &words),
				&given.stack);
	return err ? err : s->options.sampled(s->options.arg, &given);
}

static struct error *take_ran(struct oncpu_sampler *s, const struct perf_sample *sample)
{
	struct cpu_bucket b = {.count = 1};
	struct running_stack stack;
	struct error *err;
	uint64_t goid;

	s->stats.samples++;
	err = unwind(s, sample, &stack);
	if (!err)
		err = add_kernel(s, sample, &stack);
	if (err)
		return err;
	count_result(s, &stack);
	if (s->options.sampled)
		return hand_over(s, sample, &stack);
	if (stack.stack == STACK_NONE)
		return NULL;
	if (is_nobodys(&stack))
		return take_no_goroutine(s, &stack);
	if (!find_bucket(s, &stack, &b, &goid))
		return NULL;
	deliver(s, sample, goid, &stack);
	err = mark_system(s, stack.exact, &b);
	return err ? err : count(s, &b);
}

/* A goroutine that was stopped in a system call was not seen running in memory. */
static struct error *take_wait(struct oncpu_sampler *s, const struct perf_sample *left, uint64_t ns)
{
	struct cpu_bucket b = {.waits = 1, .waited_ns = ns};
	struct running_stack stack;
	struct error *err = unwind(s, left, &stack);
	uint64_t goid;

	if (err || stack.stack == STACK_NONE || is_nobodys(&stack) ||
	    !find_bucket(s, &stack, &b, &goid) || b.in_syscall)
		return err;
	err = mark_system(s, stack.exact, &b);
	return err ? err : count(s, &b);
}

static struct error *take_switch(struct oncpu_sampler *s, const struct perf_sample *sample)
{
	const struct perf_sample *left;
	uint64_t ns;

	switch (sample->what) {
	case PERF_LEAVES:
		return waits_leave(s->waits, sample) ? NULL : &error_no_memory;
	case PERF_LEFT:
	case PERF_STOPPED:
		waits_left(s->waits, sample->tid, sample->what == PERF_STOPPED);
		return NULL;
	default:
		left = waits_return(s->waits, sample->tid, sample->time, &ns);
		return left ? take_wait(s, left, ns) : NULL;
	}
}

static struct error *take(void *arg, const struct perf_sample *sample)
{
	struct oncpu_sampler *s = arg;

	if (sample->what == PERF_RAN)
		return take_ran(s, sample);
	return s->waits ? take_switch(s, sample) : NULL;
}

/* Waits of a part of the time say nothing about the rest. */
static void drop_waits(struct oncpu_sampler *s)
{
	waits_destroy(take_ptr(s->waits));
	for (size_t i = 0; i < s->count; i++)
		s->buckets[i].waits = s->buckets[i].waited_ns = 0;
}

/* They become known while goroutines that serve requests are seen parked. */
static void update_places(struct oncpu_sampler *s)
{
	struct served_place now[SERVED_PLACES];

	if (!s->program || !s->set)
		return;
	goroutine_set_served_places(s->set, now);
	if (!memcmp(now, s->places, sizeof(now)))
		return;
	memcpy(s->places, now, sizeof(now));
	sample_program_set_places(s->program, now);
}

struct error *oncpu_sampler_drain(struct oncpu_sampler *s)
{
	struct error *err;

	go_threads_stale(&s->threads);
	modules_stale(s->modules);
	if (s->program && s->set)
		goroutine_set_begin_samples(s->set);
	err = perf_events_drain(s->events, take, s);
	update_places(s);
	if (s->waits && !perf_events_see_switches(s->events))
		drop_waits(s);
	return err;
}

struct error *oncpu_sampler_use_stacks(struct oncpu_sampler *s, struct stacks *stacks)
{
	running_unwinder_destroy(take_ptr(s->unwinder));
	map_release(&s->kinds);
	s->stacks = stacks;
	return create_unwinder(s);
}

struct modules *oncpu_sampler_modules(const struct oncpu_sampler *s)
{
	return s->modules;
}

size_t oncpu_sampler_buckets(const struct oncpu_sampler *s, const struct cpu_bucket **ret)
{
	*ret = s->buckets;
	return s->count;
}

const struct error *oncpu_sampler_no_sample_program(const struct oncpu_sampler *s)
{
	return s->no_program ? s->no_program : perf_events_no_program(s->events);
}

struct oncpu_stats oncpu_sampler_stats(const struct oncpu_sampler *s)
{
	struct oncpu_stats stats = s->stats;

	stats.lost = perf_events_lost(s->events);
	stats.threads_unseen = perf_events_unseen(s->events);
	stats.sees_waits = s->waits != NULL;
	return stats;
}
