/*
 * Looks at the program churn at full speed and checks every stack that the reader accepts.
 *
 *	torn_probe PID STACKS SECONDS [careless]
 *
 * By turns it looks as dump does it, where every stack is read at every look, and as record does
 *it, where only those are read that are not as they were. A stack counts when it was read, was
 * accepted, and spells all twelve digits: until there are STACKS of them, or SECONDS are over.
 * Prints one line of JSON, and the first torn stacks on standard error.
 *
 * "careless" is the control: headers and then stacks are read, and nothing is read again. It shows
 * that stacks do tear, and that the check sees it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "churn.h"
#include "goroutine/goroutines.h"

#define UNIT_BYTES (256 << 10)
#define STACK_LIMIT (256 << 10)
/* Nearly every stack is a new one: they are forgotten when there are so many, and it is the other
 * way's turn then, or after this time. */
#define MAX_STACKS 100000
#define TURN_NS 300000000
/* How many goroutines the control looks at; they are the first ones. */
#define MAX_CARELESS 4096

struct probe {
	struct target *t;
	struct image *img;
	struct golayout *lay;
	struct goroutine_set *set; /* NULL: none is open */
	struct churn churn;
	bool as_record; /* else as dump */
	uint64_t turn;  /* when it began */
	uint32_t *order;
	size_t order_capacity;

	uint64_t looks;
	uint64_t whole;   /* accepted, with all digits */
	uint64_t partial; /* accepted, with some */
	uint64_t other;   /* accepted, of goroutines that do not walk */
	uint64_t running;
	uint64_t torn; /* accepted, and wrong */
	struct goroutine_stats stats;
};

static void tell(struct probe *p, struct stack stack, uint64_t goid, const char *what)
{
	if (p->torn > 5)
		return;
	fprintf(stderr, "torn_probe: goroutine %" PRIu64 ": %s:", goid, what);
	for (uint32_t i = 0; i < stack.count; i++) {
		struct go_func f;
		bool known = !stack_pc_is_pseudo(stack.pcs[i]) &&
			     pclntab_find(&p->img->functions, stack_pc_lookup(stack.pcs[i]), &f);

		fprintf(stderr, " %s", known ? f.name : "?");
	}
	fprintf(stderr, "\n");
}

static void check(struct probe *p, struct stack stack, uint64_t goid, const char *wait_reason)
{
	unsigned int digits = churn_digits(&p->churn, stack);
	const char *wrong = churn_wrong(&p->churn, stack, goid, wait_reason);

	p->whole += digits == CHURN_DEPTH;
	p->partial += digits && digits < CHURN_DEPTH;
	p->other += !digits;
	p->torn += wrong != NULL;
	if (wrong)
		tell(p, stack, goid, wrong);
}

static struct error *changed(void *arg, const struct goroutine_record *before,
			     struct goroutine_record *now, const uint8_t *header)
{
	struct probe *p = arg;
	bool waits = goroutine_status(now) == G_WAITING;

	if (!goroutine_is_alive(now) || now->flags & (GOROUTINE_UNKNOWN | GOROUTINE_SYSTEM))
		return NULL;
	if (goroutine_status(now) == G_RUNNING)
		p->running++;
	else
		check(p, stacks_get(goroutine_set_stacks(p->set), now->stack), now->goid,
		      waits ? goroutine_set_wait_reason(p->set, goroutine_wait_reason(now)) : "");
	return NULL;
}

static void add_stats(struct probe *p)
{
	const struct goroutine_stats *s = goroutine_set_stats(p->set);

	p->stats.scans += s->scans;
	p->stats.stacks += s->stacks;
	p->stats.torn += s->torn;
	p->stats.unknown += s->unknown;
}

static void forget(struct probe *p)
{
	if (p->set)
		add_stats(p);
	goroutine_set_close(p->set);
	p->set = NULL;
	churn_forget(&p->churn);
}

static struct error *begin(struct probe *p)
{
	struct goroutine_options options = {
		.stack_limit = STACK_LIMIT,
		.keep_state = p->as_record = !p->as_record,
		.changed = changed,
		.arg = p,
	};

	p->turn = clock_now();
	return goroutine_set_open(p->t, p->img, p->lay, &options, &p->set);
}

static struct error *look(struct probe *p)
{
	const struct goroutine_unit *units;
	size_t count, scanned = 0;
	struct error *err = goroutine_set_refresh(p->set);

	if (!err)
		err = goroutine_set_plan(p->set, UNIT_BYTES, &units, &count);
	if (err)
		return err;
	if (!p->as_record)
		memset(goroutine_set_records(p->set), 0,
		       goroutine_set_count(p->set) * sizeof(struct goroutine_record));
	if (!array_reserve(&p->order, &p->order_capacity, count))
		return &error_no_memory;
	for (size_t i = 0; i < count; i++)
		p->order[i] = i;
	for (size_t i = 0; !err && i < count; i += scanned)
		err = goroutine_set_scan(p->set, p->order + i, count - i, &scanned);
	p->looks++;
	return err;
}

static bool is_over(const struct probe *p)
{
	return stacks_count(goroutine_set_stacks(p->set)) > MAX_STACKS ||
	       clock_now() > p->turn + TURN_NS;
}

static struct error *run(struct probe *p, uint64_t stacks, uint64_t end)
{
	struct error *err = NULL;

	while (!err && p->whole < stacks && clock_now() < end) {
		if (p->set && is_over(p))
			forget(p);
		if (!p->set)
			err = begin(p);
		if (!err)
			err = look(p);
	}
	forget(p);
	return err;
}

/* One goroutine, its header and then its stack. */
static struct error *look_carelessly(struct probe *p, struct stacks *stacks, uint64_t g)
{
	static uint8_t header[1024], bytes[STACK_LIMIT];
	const struct golayout_numbers *n = &p->lay->n;
	struct stack_memory memory = {.bytes = bytes, .whole = true};
	uint64_t goid, end;
	uint32_t status, id;
	struct error *err;

	if (error_dropped(target_read(p->t, g, header, sizeof(header))))
		return NULL;
	memcpy(&status, header + n->g_status, 4);
	memcpy(&goid, header + n->g_goid, 8);
	memcpy(&memory.sp, header + n->g_sched_sp, 8);
	memcpy(&memory.pc, header + n->g_sched_pc, 8);
	memcpy(&end, header + n->g_stack_hi, 8);
	if (status != G_WAITING || memory.sp >= end || end - memory.sp > sizeof(bytes))
		return NULL;
	memory.size = end - memory.sp;
	if (error_dropped(target_read(p->t, memory.sp, bytes, memory.size)))
		return NULL;
	err = stacks_unwind(stacks, &memory, &id);
	if (!err && id != STACK_NONE)
		check(p, stacks_get(stacks, id), goid, "");
	return err;
}

static struct error *look_at_all_carelessly(struct probe *p, struct stacks *stacks)
{
	static uint64_t list[MAX_CARELESS];
	uint64_t length, array;
	struct error *err = target_read_u64(p->t, p->lay->v.allglen, &length);

	if (!err)
		err = target_read_u64(p->t, p->lay->v.allgptr, &array);
	length = length < MAX_CARELESS ? length : MAX_CARELESS;
	if (!err)
		err = target_read(p->t, array, list, length * sizeof(*list));
	for (size_t i = 0; !err && i < length; i++)
		err = look_carelessly(p, stacks, list[i]);
	p->looks++;
	return err;
}

static struct error *run_carelessly(struct probe *p, uint64_t count, uint64_t end)
{
	struct error *err = NULL;

	while (!err && p->whole < count && clock_now() < end) {
		_cleanup_stacks_ struct stacks *stacks =
			stacks_create(&p->img->functions, p->img->machine);

		if (!stacks)
			return &error_no_memory;
		churn_forget(&p->churn);
		while (!err && p->whole < count && clock_now() < end &&
		       stacks_count(stacks) < MAX_STACKS)
			err = look_at_all_carelessly(p, stacks);
	}
	return err;
}

static struct error *open_target(struct probe *p, pid_t pid)
{
	bool starting;
	struct error *err = target_open_process(pid, &p->t);

	if (!err)
		err = image_open(p->t, NULL, &p->img);
	if (!err)
		err = golayout_open(p->img, p->t, &p->lay);
	if (!err)
		err = golayout_validate(p->lay, p->img, p->t, &starting);
	if (!err)
		p->churn.functions = &p->img->functions;
	return err;
}

static void close_target(struct probe *p)
{
	churn_release(&p->churn);
	golayout_close(p->lay);
	image_close(p->img);
	target_close(p->t);
	free(p->order);
}

static void print(const struct probe *p, uint64_t ns)
{
	printf("{\"seconds\": %.2f, \"looks\": %" PRIu64 ", \"headers\": %" PRIu64
	       ", \"read\": %" PRIu64 ", \"whole\": %" PRIu64 ", \"fresh\": %" PRIu64
	       ", \"partial\": %" PRIu64 ", \"other\": %" PRIu64 ", \"running\": %" PRIu64
	       ", \"rejected\": %" PRIu64 ", \"unknown\": %" PRIu64 ", \"torn\": %" PRIu64 "}\n",
	       ns / 1e9, p->looks, p->stats.scans, p->stats.stacks, p->whole, p->churn.fresh,
	       p->partial, p->other, p->running, p->stats.torn, p->stats.unknown, p->torn);
}

int main(int argc, char **argv)
{
	static struct probe p;
	_cleanup_error_ struct error *err = NULL;
	bool careless = argc == 5 && !strcmp(argv[4], "careless");
	uint64_t start = clock_now(), end, stacks;

	if (argc != 4 && !careless) {
		fprintf(stderr, "torn_probe: usage: torn_probe PID STACKS SECONDS [careless]\n");
		return 2;
	}
	stacks = strtoull(argv[2], NULL, 10);
	end = start + atof(argv[3]) * 1e9;
	err = open_target(&p, atoi(argv[1]));
	if (!err)
		err = careless ? run_carelessly(&p, stacks, end) : run(&p, stacks, end);
	if (!err)
		print(&p, clock_now() - start);
	close_target(&p);
	if (err)
		fprintf(stderr, "torn_probe: %s\n", err->message);
	return err != NULL;
}
