#include "made_up_schedule.h"

#include <stdlib.h>

enum { THREADS = 5, PROCESSORS = 3, GOROUTINES = 4000, FOREIGN = 1000000 };

enum doing { NOTHING, RUNS, IN_SYSCALL };

struct thread {
	uint32_t p; /* TRACE_NO_P */
	uint64_t g;
	enum doing doing;
};

struct queue {
	uint64_t items[GOROUTINES];
	size_t count;
};

struct schedule {
	const struct schedule_options *options;
	uint64_t random;
	uint64_t ns;
	uint64_t next_g;
	unsigned int seen;
	struct thread threads[THREADS];
	int owner[PROCESSORS]; /* thread, or -1 */
	struct queue runnable;
	struct queue waiting;
	uint64_t task;
	struct trace_event *events;
	size_t count;
};

static uint64_t next_random(struct schedule *s)
{
	s->random ^= s->random << 13;
	s->random ^= s->random >> 7;
	s->random ^= s->random << 17;
	return s->random >> 11;
}

static bool chance(struct schedule *s, unsigned int percent)
{
	return next_random(s) % 100 < percent;
}

static struct trace_event *happen(struct schedule *s, int m, enum trace_kind kind, uint64_t g)
{
	static struct trace_event unseen;
	struct trace_event *ev = &unseen;

	s->ns += 1 + next_random(s) % 400;
	if (s->count < s->options->events && ++s->seen > s->options->skip &&
	    !chance(s, s->options->lose))
		ev = &s->events[s->count++];
	*ev = (struct trace_event){.ns = s->ns,
				   .m = 100 + m,
				   .g = g,
				   .p = s->threads[m].p,
				   .kind = kind};
	if (s->options->late_ns)
		ev->ns += next_random(s) % s->options->late_ns;
	if (chance(s, 70))
		ev->stack = 1 + next_random(s) % s->options->stacks;
	ev->text = 1 + next_random(s) % s->options->texts;
	ev->text2 = ev->text;
	return ev;
}

static void push(struct queue *q, uint64_t g)
{
	if (q->count < GOROUTINES)
		q->items[q->count++] = g;
}

static uint64_t take(struct schedule *s, struct queue *q)
{
	size_t i = next_random(s) % q->count;
	uint64_t g = q->items[i];

	q->items[i] = q->items[--q->count];
	return g;
}

static int idle_processor(const struct schedule *s)
{
	for (int p = 0; p < PROCESSORS; p++)
		if (s->owner[p] < 0)
			return p;
	return -1;
}

static void acquire(struct schedule *s, int m, int p)
{
	s->owner[p] = m;
	s->threads[m].p = p;
	happen(s, m, TRACE_P_START, 0);
}

static void release(struct schedule *s, int m, uint64_t g)
{
	happen(s, m, TRACE_P_STOP, g);
	s->owner[s->threads[m].p] = -1;
	s->threads[m].p = TRACE_NO_P;
}

/* As sysmon does, from a thread without a P. */
static void steal(struct schedule *s, int m)
{
	for (int p = 0; p < PROCESSORS; p++) {
		int victim = s->owner[p];

		if (victim < 0 || s->threads[victim].doing != IN_SYSCALL)
			continue;
		happen(s, m, TRACE_P_STEAL, 0)->p = p;
		s->threads[victim].p = TRACE_NO_P;
		s->owner[p] = -1;
		return;
	}
}

static void without_processor(struct schedule *s, int m)
{
	struct thread *t = &s->threads[m];
	int p = idle_processor(s);

	if (p >= 0 && chance(s, 80)) {
		acquire(s, m, p);
	} else if (chance(s, 10)) {
		t->g = FOREIGN + m;
		t->doing = IN_SYSCALL;
		happen(s, m, TRACE_THREAD_ENTER, t->g);
	} else if (s->waiting.count && chance(s, 30)) {
		uint64_t g = take(s, &s->waiting);

		happen(s, m, TRACE_UNBLOCK, g);
		push(&s->runnable, g);
	} else {
		steal(s, m);
	}
}

static void find_work(struct schedule *s, int m)
{
	struct thread *t = &s->threads[m];

	if (s->runnable.count && chance(s, 85)) {
		t->g = take(s, &s->runnable);
		t->doing = RUNS;
		happen(s, m, TRACE_START, t->g);
	} else if (s->waiting.count && chance(s, 70)) {
		uint64_t g = take(s, &s->waiting);

		happen(s, m, TRACE_UNBLOCK, g);
		push(&s->runnable, g);
	} else if (chance(s, 20)) {
		happen(s, m, chance(s, 50) ? TRACE_SWEEP_BEGIN : TRACE_SWEEP_END, 0);
	} else {
		release(s, m, 0);
	}
}

static void leave(struct schedule *s, int m, enum trace_kind kind)
{
	struct thread *t = &s->threads[m];

	happen(s, m, kind, t->g);
	if (kind == TRACE_BLOCK)
		push(&s->waiting, t->g);
	if (kind == TRACE_YIELD)
		push(&s->runnable, t->g);
	t->doing = NOTHING;
	t->g = 0;
}

static void enter_syscall(struct schedule *s, int m)
{
	struct thread *t = &s->threads[m];

	if (chance(s, 85)) {
		happen(s, m, TRACE_SYSCALL, t->g);
	} else if (s->options->go126) {
		release(s, m, t->g);
		happen(s, m, TRACE_SYSCALL, t->g);
	} else {
		happen(s, m, TRACE_SYSCALL, t->g);
		release(s, m, t->g);
	}
	t->doing = IN_SYSCALL;
}

static void annotate(struct schedule *s, int m)
{
	static const enum trace_kind kinds[] = {
		TRACE_GC_BEGIN,     TRACE_GC_END,     TRACE_STW_BEGIN,    TRACE_STW_END,
		TRACE_ASSIST_BEGIN, TRACE_ASSIST_END, TRACE_SWEEP_BEGIN,  TRACE_SWEEP_END,
		TRACE_HEAP_ALLOC,   TRACE_HEAP_GOAL,  TRACE_GOMAXPROCS,   TRACE_LABEL,
		TRACE_TASK_BEGIN,   TRACE_TASK_END,   TRACE_REGION_BEGIN, TRACE_REGION_END,
		TRACE_LOG,          TRACE_LABELS,     TRACE_LABELS,       TRACE_LABELS,
		TRACE_CALL,         TRACE_CALL,       TRACE_RETURN,       TRACE_RETURN,
	};
	struct trace_event *ev =
		happen(s, m, kinds[next_random(s) % (sizeof(kinds) / sizeof(*kinds))],
		       s->threads[m].g);

	ev->arg = 1 + next_random(s) % 10;
	if (ev->kind == TRACE_LABELS) {
		ev->arg = next_random(s) % 2;
		ev->g = ev->arg == TRACE_LABELS_BY_ITSELF ? ev->g : next_random(s) % 12;
	}
	if (ev->kind == TRACE_TASK_BEGIN)
		ev->arg = ++s->task;
}

static void coro_switch(struct schedule *s, int m)
{
	struct thread *t = &s->threads[m];
	uint64_t next = take(s, &s->waiting);

	happen(s, m, TRACE_CORO_SWITCH, t->g)->arg = next;
	push(&s->waiting, t->g);
	t->g = next;
}

static bool is_foreign(const struct thread *t)
{
	return t->g >= FOREIGN;
}

static void run(struct schedule *s, int m)
{
	unsigned int dice = next_random(s) % 100;

	if (is_foreign(&s->threads[m])) {
		enter_syscall(s, m);
	} else if (dice < 20) {
		happen(s, m, TRACE_CREATE, ++s->next_g)->arg = s->options->start_pc;
		push(&s->runnable, s->next_g);
	} else if (dice < 35) {
		leave(s, m, TRACE_BLOCK);
	} else if (dice < 45) {
		leave(s, m, TRACE_YIELD);
	} else if (dice < 50) {
		leave(s, m, TRACE_END);
	} else if (dice < 60) {
		annotate(s, m);
	} else if (dice < 65 && s->waiting.count) {
		coro_switch(s, m);
	} else if (dice < 95) {
		enter_syscall(s, m);
	}
}

static void return_without_processor(struct schedule *s, int m)
{
	struct thread *t = &s->threads[m];

	if (s->options->go126) {
		happen(s, m, TRACE_SYSCALL_EXIT, t->g);
		happen(s, m, TRACE_YIELD, t->g);
	} else {
		happen(s, m, TRACE_SYSCALL_EXIT_NO_P, t->g);
	}
	push(&s->runnable, t->g);
	t->doing = NOTHING;
	t->g = 0;
}

static void leave_syscall(struct schedule *s, int m)
{
	struct thread *t = &s->threads[m];
	int p = idle_processor(s);

	if (is_foreign(t) && t->p == TRACE_NO_P && chance(s, 30)) {
		happen(s, m, TRACE_THREAD_LEAVE, t->g);
		t->doing = NOTHING;
		t->g = 0;
	} else if (t->p != TRACE_NO_P) {
		if (chance(s, 60)) {
			happen(s, m, TRACE_SYSCALL_EXIT, t->g);
			t->doing = RUNS;
		}
	} else if (p >= 0 && chance(s, 70)) {
		if (s->options->go126)
			happen(s, m, TRACE_SYSCALL_EXIT, t->g);
		acquire(s, m, p);
		if (!s->options->go126)
			happen(s, m, TRACE_SYSCALL_EXIT, t->g);
		t->doing = RUNS;
	} else if (!is_foreign(t)) {
		return_without_processor(s, m);
	}
}

static void step(struct schedule *s)
{
	int m = next_random(s) % THREADS;

	switch (s->threads[m].doing) {
	case RUNS:
		run(s, m);
		break;
	case IN_SYSCALL:
		leave_syscall(s, m);
		break;
	case NOTHING:
		if (s->threads[m].p == TRACE_NO_P)
			without_processor(s, m);
		else
			find_work(s, m);
	}
}

static void talk_nonsense(struct schedule *s)
{
	struct trace_event *ev = happen(s, next_random(s) % THREADS,
					next_random(s) % (TRACE_KINDS + 1), next_random(s) % 12);

	ev->p = chance(s, 20) ? TRACE_NO_P : next_random(s) % PROCESSORS;
	ev->arg = next_random(s) % 5;
	if (chance(s, 10))
		ev->m = TRACE_NO_M;
	if (chance(s, 1))
		ev->arg = UINT64_MAX;
	if (chance(s, 1))
		ev->g = UINT64_MAX;
	if (chance(s, 1))
		ev->p = UINT32_MAX - 1;
}

static int by_time(const void *a, const void *b)
{
	const struct trace_event *x = a, *y = b;

	return x->ns < y->ns ? -1 : x->ns > y->ns;
}

struct trace_event *schedule_make(const struct schedule_options *options, size_t *ret_count)
{
	struct schedule s = {.options = options, .next_g = 10};

	s.random = options->seed * 0x9e3779b97f4a7c15ull + 1;
	s.events = calloc(options->events + 1, sizeof(*s.events));
	if (!s.events)
		return NULL;
	for (int m = 0; m < THREADS; m++)
		s.threads[m].p = TRACE_NO_P;
	for (int p = 0; p < PROCESSORS; p++)
		s.owner[p] = -1;
	for (uint64_t g = 1; g < 6; g++)
		push(&s.waiting, g);
	while (s.count < options->events) {
		if (options->nonsense)
			talk_nonsense(&s);
		else
			step(&s);
	}
	qsort(s.events, s.count, sizeof(*s.events), by_time);
	*ret_count = s.count;
	return s.events;
}
