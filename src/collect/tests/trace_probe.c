/*
 * Traces a process and prints a line for each kind of event with its count, and whether the events
 * of each goroutine form a legal sequence.
 *
 * 	trace_probe PID SECONDS [DEPTH]
 *
 * With PROBE_SNAPSHOT=fork or =stop it takes a snapshot of the process's memory instead, and reads
 * that for so long.
 *
 * With PROBE_CPU=HZ it also takes CPU samples. With PROBE_TIMES=N it does all that N times, and
 * prints "run" ahead of each: where a process takes long to start, that is faster.
 *
 * With PROBE_NO_FORCE the kernel seems to permit writes to code to ptrace(2) alone (no_force.c).
 *
 * The surgeon is in this process, for tests to kill both at once; with PROBE_SURGEON it has one of
 * its own, as gospect's has.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/permit.h"
#include "collect/tracer.h"
#include "golayout/golayout.h"
#include "hooks/injection.h"
#include "hooks/take_snapshot.h"
#include "image/image.h"
#include "inject/surgeon.h"
#include "sandbox/helper.h"
#include "target/target.h"

static const char *const names[TRACE_KINDS] = {
	[TRACE_G_STATUS] = "g_status",
	[TRACE_PARKED] = "parked",
	[TRACE_P_STATUS] = "p_status",
	[TRACE_CREATE] = "create",
	[TRACE_START] = "start",
	[TRACE_BLOCK] = "block",
	[TRACE_YIELD] = "yield",
	[TRACE_END] = "end",
	[TRACE_UNBLOCK] = "unblock",
	[TRACE_CORO_SWITCH] = "coro_switch",
	[TRACE_SYSCALL] = "syscall",
	[TRACE_SYSCALL_EXIT] = "syscall_exit",
	[TRACE_SYSCALL_EXIT_NO_P] = "syscall_exit_no_p",
	[TRACE_THREAD_ENTER] = "thread_enter",
	[TRACE_THREAD_LEAVE] = "thread_leave",
	[TRACE_P_START] = "p_start",
	[TRACE_P_STOP] = "p_stop",
	[TRACE_P_STEAL] = "p_steal",
	[TRACE_GC_BEGIN] = "gc_begin",
	[TRACE_GC_END] = "gc_end",
	[TRACE_STW_BEGIN] = "stw_begin",
	[TRACE_STW_END] = "stw_end",
	[TRACE_ASSIST_BEGIN] = "assist_begin",
	[TRACE_ASSIST_END] = "assist_end",
	[TRACE_SWEEP_BEGIN] = "sweep_begin",
	[TRACE_SWEEP_END] = "sweep_end",
	[TRACE_HEAP_ALLOC] = "heap_alloc",
	[TRACE_HEAP_GOAL] = "heap_goal",
	[TRACE_GOMAXPROCS] = "gomaxprocs",
	[TRACE_COUNTER] = "counter",
	[TRACE_LABEL] = "label",
	[TRACE_TASK_BEGIN] = "task_begin",
	[TRACE_TASK_END] = "task_end",
	[TRACE_REGION_BEGIN] = "region_begin",
	[TRACE_REGION_END] = "region_end",
	[TRACE_LOG] = "log",
	[TRACE_LABELS] = "labels",
	[TRACE_CALL] = "call",
	[TRACE_RETURN] = "return",
	[TRACE_CPU_SAMPLE] = "cpu_sample",
	[TRACE_LOST] = "lost",
};

#define HISTORY 65536
#define MOST_PRINTED 12

struct probe {
	struct trace_event history[HISTORY];
	uint64_t seen;
	uint64_t counts[TRACE_KINDS];
	struct map states; /* goid -> enum trace_status */
	uint64_t illegal, unannounced, backwards, last_ns, shown, no_stack;
	const struct tracer *tracer;
};

static volatile sig_atomic_t stopped;

static void on_signal(int signal)
{
	stopped = 1;
}

/* From which states the event may come, as bits, and to which it leads. */
static const struct {
	unsigned int from, to;
} rules[TRACE_KINDS] = {
	[TRACE_START] = {1 << TRACE_RUNNABLE, TRACE_RUNNING},
	[TRACE_BLOCK] = {1 << TRACE_RUNNING, TRACE_WAITING},
	[TRACE_YIELD] = {1 << TRACE_RUNNING, TRACE_RUNNABLE},
	[TRACE_END] = {1 << TRACE_RUNNING, 7},
	[TRACE_UNBLOCK] = {1 << TRACE_WAITING, TRACE_RUNNABLE},
	[TRACE_CREATE] = {1 | 1 << 7, TRACE_RUNNABLE},
	[TRACE_CORO_SWITCH] = {1 << TRACE_RUNNING, TRACE_WAITING},
	[TRACE_SYSCALL] = {1 << TRACE_RUNNING, TRACE_IN_SYSCALL},
	[TRACE_SYSCALL_EXIT] = {1 << TRACE_IN_SYSCALL, TRACE_RUNNING},
	[TRACE_SYSCALL_EXIT_NO_P] = {1 << TRACE_IN_SYSCALL | 1 << TRACE_RUNNING, TRACE_RUNNABLE},
	[TRACE_THREAD_ENTER] = {1 | 1 << 7, TRACE_IN_SYSCALL},
	[TRACE_THREAD_LEAVE] = {1 << TRACE_IN_SYSCALL, 7},
};

/* Prints the goroutine's earlier events. */
static void print_history(const struct probe *p, uint64_t g)
{
	int printed = 0;

	for (uint64_t i = p->seen; i && i + HISTORY > p->seen && printed < MOST_PRINTED; i--) {
		const struct trace_event *ev = &p->history[(i - 1) % HISTORY];

		if (ev->g != g)
			continue;
		printf("  %s at %lu on %lu p %d stack %u text %s\n", names[ev->kind], ev->ns, ev->m,
		       (int)ev->p, ev->stack, texts_get(tracer_texts(p->tracer), ev->text));
		printed++;
	}
}

static void check(struct probe *p, const struct trace_event *ev)
{
	uint64_t *state = ev->g ? map_at(&p->states, ev->g) : NULL;

	p->backwards += ev->ns < p->last_ns;
	p->last_ns = ev->ns;
	if (!state)
		return;
	if (ev->kind == TRACE_G_STATUS)
		*state = ev->arg;
	if (!rules[ev->kind].from)
		return;
	/* See states_at_start.c: one that was between two states when tracing began. */
	if (ev->kind == TRACE_SYSCALL && ev->p == TRACE_NO_P && *state == TRACE_IN_SYSCALL)
		return;
	if (ev->kind == TRACE_START && !*state) {
		p->unannounced++;
	} else if (!(rules[ev->kind].from >> *state & 1)) {
		p->illegal++;
		if (p->shown++ < 20) {
			printf("illegal: %s of goroutine %lu in state %lu at %lu on %lu p %d\n",
			       names[ev->kind], ev->g, *state, ev->ns, ev->m, (int)ev->p);
			print_history(p, ev->g);
		}
	}
	*state = rules[ev->kind].to;
	if (ev->kind == TRACE_CORO_SWITCH)
		*map_at(&p->states, ev->arg) = TRACE_RUNNING;
}

static struct error *take(struct tracer *tr, struct probe *p, bool *ret_last)
{
	struct trace_batch batch;
	struct error *err = tracer_next(tr, &batch);

	if (err)
		return err;
	for (size_t i = 0; i < batch.count; i++) {
		const struct trace_event *ev = &batch.events[i];

		p->counts[ev->kind]++;
		p->history[p->seen++ % HISTORY] = *ev;
		p->no_stack += ev->kind == TRACE_BLOCK && !ev->stack;
		check(p, ev);
	}
	*ret_last = batch.last;
	return NULL;
}

static void print_results(const struct tracer *tr, const struct probe *p)
{
	struct tracer_stats stats;

	tracer_stats(tr, &stats);
	for (int i = 0; i < TRACE_KINDS; i++)
		if (p->counts[i])
			printf("%s %lu\n", names[i], p->counts[i]);
	printf("events %lu\nlost_records %lu\nstacks %lu\nstacks_lost %lu\nbytes %lu\n"
	       "attach_us %lu\ndetach_us %lu\nillegal %lu\nunannounced %lu\nbackwards %lu\n"
	       "block_no_stack %lu\n",
	       stats.events, stats.lost, stats.stacks, stats.stacks_lost, stats.bytes,
	       stats.attach_pause_ns / 1000, stats.detach_pause_ns / 1000, p->illegal,
	       p->unannounced, p->backwards, p->no_stack);
}

static void show_stack(const struct tracer *tr, const struct pclntab *tab, uint32_t id)
{
	struct stack stack = stacks_get(tracer_stacks(tr), id);
	struct go_frame frames[16];

	for (uint32_t i = 0; i < stack.count; i++) {
		size_t n = pclntab_frames(tab, stack.pcs[i], frames, 16);

		for (size_t k = 0; k < n; k++)
			printf("  %s:%d\n", frames[k].function, frames[k].line);
		if (!n)
			printf("  0x%lx\n", stack.pcs[i]);
	}
}

static struct error *run(struct tracer *tr, double seconds, struct probe *p)
{
	uint64_t end = clock_now() + (uint64_t)(seconds * 1e9);
	struct error *err = NULL;
	bool last = false;

	while (!err && !last && clock_now() < end && !stopped)
		err = take(tr, p, &last);
	if (!err)
		err = tracer_stop(tr);
	while (!err && !last)
		err = take(tr, p, &last);
	return err;
}

/* Its registers and one byte, again and again. */
static struct error *read_still(struct target *still, double seconds)
{
	uint64_t entry, end = clock_now() + (uint64_t)(seconds * 1e9);
	struct error *err = target_entry(still, &entry);
	struct target_thread *threads;
	size_t count;

	if (!err)
		err = target_threads(still, &threads, &count);
	if (err)
		return err;
	printf("threads %zu\n", count);
	free(threads);
	while (!err && clock_now() < end && !stopped) {
		err = target_read_u64(still, entry, &entry) ?: target_entry(still, &entry);
		usleep(1000);
	}
	return err;
}

static struct error *snapshot(struct target *t, const struct image *img, const struct golayout *lay,
			      const struct surgeon_line *line, double seconds)
{
	const struct snapshot_limits limits = {.no_fork =
						       !strcmp(getenv("PROBE_SNAPSHOT"), "stop")};
	_cleanup_target_ struct target *still = NULL;
	struct memory_snapshot_taken *taken;
	struct snapshot_result r = {0};
	struct error *err = memory_snapshot_take(t, img, lay, line, &limits, &still, &taken), *lost;

	if (err)
		return err;
	err = read_still(still, seconds);
	lost = memory_snapshot_give_back(taken, &r);
	printf("way %d\npause_us %lu\nlived_us %lu\ncopied %lu\nended_early %d\n", r.way,
	       r.pause_ns / 1000, r.lived_ns / 1000, r.copied_bytes, r.ended_early);
	if (!lost)
		return err;
	error_destroy(err);
	return lost;
}

static struct error *ask_helper(void *helper, struct door_call *call)
{
	return helper_ask(helper, call);
}

/* *ret is NULL where none is wanted. */
static struct error *start_surgeon(pid_t pid, struct helper **ret)
{
	struct broker_service service = {surgeon_serve, NULL};
	struct surgeon *inner;
	struct error *err;

	if (!getenv("PROBE_SURGEON"))
		return NULL;
	err = surgeon_create(pid, NULL, &inner);
	if (err)
		return err;
	service.arg = inner;
	err = helper_start(service, "gospect-surgeon", ret);
	surgeon_destroy(inner);
	return err;
}

static struct error *probe(pid_t pid, double seconds, uint32_t depth,
			   const struct surgeon_line *surgeon)
{
	_cleanup_target_ struct target *t = NULL;
	_cleanup_image_ struct image *img = NULL;
	_cleanup_golayout_ struct golayout *lay = NULL;
	_cleanup_tracer_ struct tracer *tr = NULL;
	static const atomic_int never;
	struct tracer_options options = {.stack_depth = depth,
					 .cancel = &never,
					 .surgeon = surgeon,
					 .cpu_hz = atof(getenv("PROBE_CPU") ?: "0")};
	struct probe p = {0};
	bool starting, found;
	struct error *err = target_open_process(pid, &t);

	if (!err)
		err = image_open(t, NULL, &img);
	if (!err)
		err = golayout_open(img, t, &lay);
	if (!err)
		err = golayout_validate(lay, img, t, &starting);
	if (!err && seconds < 0) {
		err = inject_clean(t, img, lay, surgeon, &found);
		if (!err)
			printf("%s\n", found ? "cleaned" : "nothing to clean");
		return err;
	}
	if (!err && getenv("PROBE_SNAPSHOT"))
		return snapshot(t, img, lay, surgeon, seconds);
	if (!err)
		err = tracer_open(t, img, lay, &options, &tr);
	p.tracer = tr;
	if (!err)
		err = run(tr, seconds, &p);
	if (!err)
		print_results(tr, &p);
	if (!err && getenv("PROBE_STACKS"))
		for (uint32_t i = 1; i <= stacks_count(tracer_stacks(tr)) && i <= 40; i++) {
			printf("stack %u\n", i);
			show_stack(tr, &img->functions, i);
		}
	map_release(&p.states);
	return err;
}

int main(int argc, char **argv)
{
	_cleanup_error_ struct error *err = NULL;
	struct helper *helper = NULL;
	struct surgeon_line line;
	int times;

	if (argc < 3) {
		fprintf(stderr, "usage: trace_probe PID SECONDS [DEPTH]\n");
		return 2;
	}
	permit_only(PERMIT_ALL);
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	err = start_surgeon(atoi(argv[1]), &helper);
	line = (struct surgeon_line){ask_helper, helper};
	times = atoi(getenv("PROBE_TIMES") ?: "0");
	for (int i = 0; !err && i < (times ? times : 1) && !stopped; i++) {
		if (times)
			printf("run\n");
		err = probe(atoi(argv[1]), atof(argv[2]), argc > 3 ? atoi(argv[3]) : 32,
			    helper ? &line : NULL);
	}
	helper_end(helper);
	if (err)
		fprintf(stderr, "trace_probe: %s\n", err->message);
	return err ? 1 : 0;
}
