#include "goroutine/goroutine_snapshot.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "goroutine/set.h"

#define UNIT_BYTES (256u << 10)
#define PATIENCE_NS 1000000000ull
#define RUNNING_NS 50000000ull
#define PAUSE_US 500u

/* The result of one try. */
enum outcome { OUTCOME_TAKEN, OUTCOME_RUNS, OUTCOME_MOVED, OUTCOME_GONE, OUTCOME_UNREADABLE };

/* What one read of a stack needs and finds. */
struct reading {
	uint8_t *header, *again;
	struct goroutine_record before;
	uint64_t stack_end;
	uint64_t tick_address; /* of m.syscalltick; 0 when it need not be read */
	uint32_t tick, tick_again;
};

static bool read_header(struct goroutine_set *set, uint64_t address, struct reading *r)
{
	struct g_view g;

	if (error_dropped(target_read(set->t, address, r->header, set->header_size)))
		return false;
	g = header_view(set, r->header);
	r->before = record_of(set, r->header);
	r->stack_end = g_view_stack_hi(g);
	r->tick_address = 0;
	r->tick = r->tick_again = 0;
	if (record_needs_tick(set, &r->before) && g_view_m(g))
		r->tick_address = m_at_syscalltick(&set->lay->n, g_view_m(g));
	return true;
}

static bool is_on_stack(const struct goroutine_set *set, const struct reading *r, uint64_t sp)
{
	return sp > g_view_stack_lo(header_view(set, r->header)) && sp < r->stack_end && !(sp & 7);
}

/* Makes room for the stack from sp on; the outer end that does not fit is left out. */
static struct error *make_room(const struct goroutine_set *set, const struct reading *r,
			       struct goroutine_snapshot *ret)
{
	struct stack_memory *m = &ret->memory;

	m->pc = ret->registers.pc;
	m->sp = ret->registers.sp;
	m->lr = ret->registers.lr;
	m->start_pc = g_view_startpc(header_view(set, r->header));
	m->size = r->stack_end - m->sp;
	m->whole = m->size <= set->options.stack_limit;
	if (!m->whole)
		m->size = set->options.stack_limit & ~(size_t)7;
	m->fp = ret->registers.fp;
	m->below = bytes_below(set, m->sp);
	ret->bytes = malloc(m->below + m->size);
	m->bytes = ret->bytes ? ret->bytes + m->below : NULL;
	ret->stack_end = r->stack_end;
	ret->fp = ret->registers.fp;
	return ret->bytes ? NULL : &error_no_memory;
}

/* The tick, the stack, the header and the tick again, in this order. */
static struct error *read_stack(struct goroutine_set *set, uint64_t g, struct reading *r,
				const struct stack_memory *m, bool *ret_stood_still)
{
	struct target_range ranges[4];
	struct goroutine_record after;
	size_t count = 0, done;
	struct error *err;

	if (r->tick_address)
		ranges[count++] = (struct target_range){r->tick_address, 4, &r->tick};
	ranges[count++] = (struct target_range){m->sp - m->below, m->below + m->size,
						(void *)(m->bytes - m->below)};
	ranges[count++] = (struct target_range){g, set->header_size, r->again};
	if (r->tick_address)
		ranges[count++] = (struct target_range){r->tick_address, 4, &r->tick_again};
	err = target_read_ranges(set->t, ranges, count, &done);
	if (err)
		return err;
	after = record_of(set, r->again);
	*ret_stood_still = done == count && record_same(&r->before, &after) &&
			   g_view_stack_hi(header_view(set, r->again)) == r->stack_end &&
			   r->tick == r->tick_again;
	return NULL;
}

static enum outcome place_of_status(struct goroutine_set *set, const struct reading *r,
				    struct goroutine_snapshot *ret)
{
	struct place place;

	switch (goroutine_status(&r->before)) {
	case G_RUNNING:
		if (!set->options.registers || !running_place(set, r->header, &place))
			return OUTCOME_RUNS;
		ret->registers = place.registers;
		ret->has_general = ret->memory.exact_pc = place.exact;
		return OUTCOME_TAKEN;
	case G_RUNNABLE:
	case G_SYSCALL:
	case G_WAITING:
	case G_PREEMPTED:
	case G_LEAKED:
		ret->registers = parked_registers(set, r->header, &r->before);
		return is_on_stack(set, r, ret->registers.sp) ? OUTCOME_TAKEN : OUTCOME_MOVED;
	default:
		return OUTCOME_MOVED;
	}
}

static struct error *try_once(struct goroutine_set *set, uint64_t g, uint64_t goid,
			      struct reading *r, struct goroutine_snapshot *ret,
			      enum outcome *ret_outcome)
{
	bool stood_still;
	struct error *err;

	*ret_outcome = OUTCOME_UNREADABLE;
	if (!read_header(set, g, r))
		return NULL;
	*ret_outcome = OUTCOME_GONE;
	if (!goroutine_is_alive(&r->before) || r->before.goid != goid)
		return NULL;
	*ret_outcome = place_of_status(set, r, ret);
	if (*ret_outcome != OUTCOME_TAKEN)
		return NULL;
	err = make_room(set, r, ret);
	if (!err)
		err = read_stack(set, g, r, &ret->memory, &stood_still);
	if (!err && !stood_still)
		*ret_outcome = OUTCOME_MOVED;
	if (err || !stood_still)
		return err;
	ret->g = g;
	ret->goid = goid;
	ret->status = goroutine_status(&r->before);
	ret->wait_reason = goroutine_wait_reason(&r->before);
	return frames_unwind_by(&set->options.unwind, &set->img->functions, set->img->machine,
				&ret->memory, &ret->frames);
}

static struct error *explain(enum outcome outcome, struct target *t, uint64_t goid)
{
	const struct target_core *core = target_core(t);

	if (outcome == OUTCOME_RUNS && core)
		return error_format(ERROR_FAILED,
				    "goroutine %lu was running, and %s lacks the registers of its "
				    "thread; take the core file with gcore in the program's pid "
				    "namespace",
				    goid, core->path);
	switch (outcome) {
	case OUTCOME_GONE:
		return error_format(ERROR_FAILED,
				    "goroutine %lu ended before its stack could be read", goid);
	case OUTCOME_UNREADABLE:
		return error_format(ERROR_FAILED, "cannot read goroutine %lu: its memory is %s",
				    goid, core ? "not in the core file" : "gone");
	default:
		if (core)
			return error_format(
				ERROR_FAILED,
				"the stack of goroutine %lu is missing from the core file or "
				"corrupt",
				goid);
		return error_format(
			ERROR_FAILED,
			"goroutine %lu ran during every attempt to read its stack; try again",
			goid);
	}
}

/* Tries until the goroutine did not move. In a core file nothing moves. */
static struct error *take(struct goroutine_set *set, uint64_t g, uint64_t goid, bool *ret_runs,
			  struct goroutine_snapshot *ret)
{
	_cleanup_free_ uint8_t *headers = calloc(2, set->header_size);
	struct reading r = {.header = headers, .again = headers + set->header_size};
	uint64_t begin = clock_now();
	enum outcome outcome;
	struct error *err;

	if (!headers)
		return &error_no_memory;
	for (;;) {
		err = try_once(set, g, goid, &r, ret, &outcome);
		if (err || (outcome == OUTCOME_TAKEN && ret->frames.end != FRAMES_TORN))
			return err;
		if (target_core(set->t) || outcome == OUTCOME_GONE ||
		    clock_now() - begin > PATIENCE_NS)
			break;
		goroutine_snapshot_release(ret);
		*ret_runs = *ret_runs && outcome == OUTCOME_RUNS;
		if (*ret_runs && clock_now() - begin > RUNNING_NS) {
			*ret = (struct goroutine_snapshot){.g = g,
							   .goid = goid,
							   .stack_end = r.stack_end};
			return NULL;
		}
		err = target_check(set->t);
		if (err)
			return err;
		usleep(PAUSE_US);
	}
	return outcome == OUTCOME_TAKEN ? NULL : explain(outcome, set->t, goid);
}

struct error *goroutine_snapshot_take(struct goroutine_set *set, uint64_t goid, bool *ret_runs,
				      struct goroutine_snapshot *ret)
{
	const struct target_core *core = target_core(set->t);
	struct goroutine_snapshot s = {0};
	uint64_t g;
	/* In a truncated core file each goroutine is read alone. */
	struct error *err =
		goroutine_set_locate(set, core && core->truncated ? 1 : UNIT_BYTES, goid, &g);

	if (!err && !g)
		return error_format(ERROR_FAILED, "there is no goroutine %lu%s", goid,
				    core && core->truncated ? " in what the core file has" : "");
	*ret_runs = !core;
	if (!err)
		err = take(set, g, goid, ret_runs, &s);
	*ret_runs = *ret_runs && !err && !s.memory.bytes;
	if (err) {
		goroutine_snapshot_release(&s);
		return err;
	}
	*ret = s;
	return NULL;
}

bool goroutine_snapshot_bounds(struct goroutine_set *set, const struct goroutine_snapshot *s,
			       uint64_t *ret_low, uint64_t *ret_end)
{
	_cleanup_free_ uint8_t *header = calloc(1, set->header_size);
	struct reading r = {.header = header};

	if (!header || !read_header(set, s->g, &r) || r.before.goid != s->goid ||
	    !goroutine_is_alive(&r.before))
		return false;
	*ret_end = r.stack_end;
	*ret_low = g_view_stack_lo(header_view(set, header));
	return true;
}

struct error *goroutine_snapshot_fill(struct goroutine_set *set, const struct goroutine_memory *m,
				      struct goroutine_snapshot *s)
{
	uint64_t left = s->stack_end - m->memory.sp;

	s->memory = m->memory;
	if (s->memory.size > left)
		s->memory.size = left;
	s->memory.below = 0;
	s->memory.whole = s->memory.size == left;
	s->bytes = malloc(s->memory.size + 1);
	if (!s->bytes)
		return &error_no_memory;
	memcpy(s->bytes, m->memory.bytes, s->memory.size);
	s->memory.bytes = s->bytes;
	s->status = G_RUNNING;
	s->fp = m->memory.fp;
	s->has_general = m->has_general;
	s->registers = m->registers;
	return frames_unwind_by(&set->options.unwind, &set->img->functions, set->img->machine,
				&s->memory, &s->frames);
}

void goroutine_snapshot_release(struct goroutine_snapshot *s)
{
	frames_release(&s->frames);
	free(s->bytes);
	*s = (struct goroutine_snapshot){0};
}
