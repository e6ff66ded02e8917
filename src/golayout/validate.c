/*
 * Checks the assumed layout against the process: docs/internals/go-runtime.md, "Plausibility".
 *
 * The process runs meanwhile, so any single reading may be torn or outdated. A pass of all checks
 * is therefore repeated a few times; what is wrong about the layout is wrong every time. A pass is
 * a dozen system calls, whatever the number of goroutines.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "golayout/view.h"

/* How often the goroutine of a running M is compared; a refusal takes 0.3 s. */
#define LOOKS 100
#define LOOK_PAUSE_US 3000
#define PASSES 8
#define FIRST_PAUSE_US 30 /* doubled after each pass */
#define SAMPLES 16        /* goroutines checked: the first half are the oldest, the others spread */
#define MACHINES 8        /* Ms looked at */
#define PROCESSORS 64     /* Ps looked at */
#define MAX_COUNT (1u << 28)
#define MIN_STACK 2048
#define MAX_PID (1 << 22) /* of Linux */

/* Of p.status, as runtime/runtime2.go has it. */
#define P_DEAD 4

/* One pass. */
struct check {
	const struct golayout *lay;
	const struct image *img;
	struct target *t;
	bool starting;
	uint64_t count;                  /* of goroutines */
	uint64_t processors[PROCESSORS]; /* the first of allp */
	size_t processor_count;
	bool all_processors; /* there are no more */
	uint8_t *buffer;     /* SAMPLES of g, or MACHINES of m */
	size_t g_bytes;      /* of each */
	size_t m_bytes;
};

static struct error *must_check mismatch(const struct check *c, const char *what,
					 const char *expected, uint64_t found)
{
	return error_format(
		ERROR_UNSUPPORTED,
		"%s claims Go version %s, but its memory does not match: %s should be %s, but is 0x%llx; try again, and report this if it persists",
		elf_file_name(c->img->elf), c->img->info.version, what, expected,
		(unsigned long long)found);
}

/* A truncated core file may lack objects of the runtime, although its layout is right. */
static bool is_cut(const struct check *c)
{
	const struct target_core *core = target_core(c->t);

	return core && core->truncated;
}

/* Reads an object that the runtime points to. Only the runtime's own variables may be unreadable,
 * at the start. */
static struct error *must_check read_object(const struct check *c, const char *what,
					    uint64_t address, void *buffer, size_t size)
{
	struct error *err = target_read(c->t, address, buffer, size);

	if (!err || err->code != ERROR_FAULT || is_cut(c))
		return err;
	error_destroy(err);
	return mismatch(c, what, "an address in its memory", address);
}

static struct g_view g_at(const struct check *c, size_t i)
{
	return (struct g_view){&c->lay->n, c->buffer + i * c->g_bytes};
}

static struct m_view m_at(const struct check *c, size_t i)
{
	return (struct m_view){&c->lay->n, c->buffer + i * c->m_bytes};
}

static bool is_code(const struct check *c, uint64_t pc)
{
	return pclntab_is_code(&c->img->functions, pc);
}

static struct error *must_check check_count(struct check *c)
{
	struct error *err = target_read_u64(c->t, c->lay->v.allglen, &c->count);

	if (err)
		return err;
	c->starting = !c->count;
	if (!c->count || c->count > MAX_COUNT)
		return mismatch(c, "the number of goroutines (runtime.allglen)",
				"between 1 and 2^28", c->count);
	return NULL;
}

static struct error *must_check check_processors(struct check *c)
{
	const struct golayout_variables *v = &c->lay->v;
	uint64_t slice[2] = {0};
	uint32_t used = 0;
	struct error *err = target_read(c->t, v->allp, slice, sizeof(slice));

	if (!err)
		err = target_read_u32(c->t, v->gomaxprocs, &used);
	if (err)
		return err;
	c->starting = !slice[0];
	if (!slice[0] || !used || used > slice[1] || slice[1] > MAX_COUNT)
		return mismatch(c, "runtime.gomaxprocs", "between 1 and the length of runtime.allp",
				used);
	c->all_processors = slice[1] <= PROCESSORS;
	c->processor_count = c->all_processors ? slice[1] : PROCESSORS;
	return read_object(c, "runtime.allp", slice[0], c->processors,
			   c->processor_count * sizeof(c->processors[0]));
}

/* Ps beyond gomaxprocs may be missing if there were never so many. */
static struct error *must_check check_processor_ids(struct check *c)
{
	const struct golayout_numbers *n = &c->lay->n;

	for (size_t i = 0; i < c->processor_count && i < 4; i++) {
		uint32_t id, status;
		struct error *err;

		if (!c->processors[i])
			continue;
		err = read_object(c, "an entry of runtime.allp", p_at_id(n, c->processors[i]), &id,
				  sizeof(id));
		if (!err)
			err = read_object(c, "an entry of runtime.allp",
					  p_at_status(n, c->processors[i]), &status,
					  sizeof(status));
		if (err)
			return err;
		if (id != i)
			return mismatch(c, "p.id", "its place in runtime.allp", id);
		if (status > P_DEAD)
			return mismatch(c, "p.status", "at most 4", status);
	}
	return NULL;
}

static struct error *must_check check_start(const struct check *c, struct g_view g, uint64_t goid)
{
	uint64_t start = g_view_startpc(g), creator = g_view_gopc(g);
	struct go_func f;

	if (creator && !is_code(c, creator))
		return mismatch(c, "g.gopc", "in the program's code", creator);
	/* The goroutine of a thread that C made has neither a start nor a creator. */
	if (!start && !creator && goid != 1)
		return NULL;
	if (!pclntab_find(&c->img->functions, start, &f) || f.entry != start)
		return mismatch(c, "g.startpc", "the start of a function", start);
	if (goid == 1 && strcmp(f.name, "runtime.main"))
		return mismatch(c, "g.startpc of goroutine 1", "runtime.main", start);
	return NULL;
}

static struct error *must_check check_stack(const struct check *c, struct g_view g, uint32_t status)
{
	uint64_t lo = g_view_stack_lo(g), hi = g_view_stack_hi(g), size = hi - lo;
	uint64_t sp = status == G_SYSCALL ? g_view_syscallsp(g) : g_view_sched_sp(g);
	uint64_t pc = status == G_SYSCALL ? g_view_syscallpc(g) : g_view_sched_pc(g);

	if (lo >= hi || size < MIN_STACK || size & (size - 1))
		return mismatch(c, "g.stack.hi - g.stack.lo", "a power of two, at least 2048",
				size);
	if (status != G_WAITING && status != G_SYSCALL)
		return NULL;
	if (sp <= lo || sp > hi)
		return mismatch(c, "the stack pointer of a goroutine that waits", "in its stack",
				sp);
	if (!is_code(c, pc))
		return mismatch(c, "the pc of a goroutine that waits", "in the program's code", pc);
	return NULL;
}

static struct error *must_check check_goroutine(const struct check *c, uint64_t address,
						struct g_view g, uint64_t last_goid)
{
	uint32_t status = g_view_status(g), reason = g_view_waitreason(g);
	uint64_t goid = g_view_goid(g);
	struct error *err;

	if ((status & ~G_SCAN) > G_DEADEXTRA)
		return mismatch(c, "g.atomicstatus", "a known state (at most 11)", status);
	status &= ~G_SCAN;
	if (status == G_IDLE || status == G_DEAD || status == G_DEADEXTRA || status == G_COPYSTACK)
		return NULL;
	if (!goid || goid > last_goid)
		return mismatch(c, "g.goid", "between 1 and the last one assigned", goid);
	if (g_view_sched_g(g) != address)
		return mismatch(c, "g.sched.g", "the address of the g itself", g_view_sched_g(g));
	if (status == G_WAITING && reason >= c->lay->v.wait_reason_count)
		return mismatch(c, "g.waitreason", "in the table of wait reasons", reason);
	err = check_start(c, g, goid);
	return err ? err : check_stack(c, g, status);
}

/* Reads *count objects of `size` bytes into c->buffer; fewer when the target is cut off. */
static struct error *must_check read_objects(struct check *c, const uint64_t *addresses,
					     size_t *count, size_t size)
{
	struct target_range ranges[SAMPLES];
	size_t done;
	struct error *err;

	for (size_t i = 0; i < *count; i++)
		ranges[i] = (struct target_range){addresses[i], size, c->buffer + i * size};
	err = target_read_ranges(c->t, ranges, *count, &done);
	if (!err && done < *count && !is_cut(c))
		return mismatch(c, "an entry of runtime.allgptr", "an address in its memory",
				addresses[done]);
	*count = done;
	return err;
}

/* The addresses of some goroutines: the oldest, and some spread over the rest. */
static struct error *must_check pick_goroutines(const struct check *c, uint64_t *ret,
						size_t *ret_count)
{
	size_t n = c->count < SAMPLES ? c->count : SAMPLES, done;
	struct target_range ranges[SAMPLES];
	uint64_t all;
	struct error *err = target_read_u64(c->t, c->lay->v.allgptr, &all);

	if (err)
		return err;
	for (size_t i = 0; i < n; i++) {
		size_t index = i < SAMPLES / 2 ? i : c->count * i / SAMPLES;

		ranges[i] = (struct target_range){all + 8 * index, sizeof(ret[i]), &ret[i]};
	}
	err = target_read_ranges(c->t, ranges, n, &done);
	*ret_count = done;
	return !err && done < n && !is_cut(c)
		       ? mismatch(c, "runtime.allgptr", "an address in its memory", all)
		       : err;
}

static struct error *must_check check_goroutines(struct check *c)
{
	const struct golayout_numbers *n = &c->lay->n;
	uint64_t addresses[SAMPLES], last_goid = 0;
	size_t count;
	struct error *err = pick_goroutines(c, addresses, &count);

	for (size_t i = 0; !err && i < count; i++)
		if (!addresses[i] || addresses[i] % 8)
			err = mismatch(c, "an entry of runtime.allgptr", "the address of a g",
				       addresses[i]);
	if (!err)
		err = read_objects(c, addresses, &count, c->g_bytes);
	if (!err)
		err = target_read_u64(c->t, sched_at_goidgen(n, c->lay->v.sched), &last_goid);
	for (size_t i = 0; !err && i < count; i++)
		err = check_goroutine(c, addresses[i], g_at(c, i), last_goid);
	return err;
}

/* The first Ms of the list, into c->buffer. New ones are put in front; the last is always
 * runtime.m0, whose id is 0 and which never leaves (proc.go: mcommoninit, mexit). A wrong place of
 * m.alllink often holds nothing, and would end the list at once. */
static struct error *must_check read_machines(struct check *c, uint64_t *ret, size_t *ret_count)
{
	const struct golayout_numbers *n = &c->lay->n;
	uint64_t m;
	struct error *err = target_read_u64(c->t, c->lay->v.allm, &m);

	*ret_count = 0;
	if (err)
		return err;
	c->starting = !m;
	if (!m)
		return mismatch(c, "runtime.allm", "the address of an m", m);
	while (m && *ret_count < MACHINES) {
		uint8_t *copy = c->buffer + *ret_count * c->m_bytes;
		struct m_view copied = {n, copy};

		if (m % 8)
			return mismatch(c, "m.alllink", "the address of an m", m);
		err = read_object(c, "m.alllink", m, copy, c->m_bytes);
		if (err)
			return err;
		ret[(*ret_count)++] = m;
		m = m_view_alllink(copied);
		if (!m && m_view_id(copied))
			return mismatch(c, "the id of the last m by m.alllink", "0",
					m_view_id(copied));
	}
	return NULL;
}

static bool is_processor(const struct check *c, uint64_t p)
{
	for (size_t i = 0; i < c->processor_count; i++)
		if (c->processors[i] == p)
			return true;
	return !p || !c->all_processors;
}

/* Checks a goroutine that belongs to this M: its g.m must point back. */
static struct error *must_check check_owned(const struct check *c, const char *what, uint64_t g,
					    uint64_t m)
{
	uint64_t owner;
	struct error *err = read_object(c, what, g_at_m(&c->lay->n, g), &owner, sizeof(owner));

	return err || owner == m ? err : mismatch(c, what, "the address of the m", owner);
}

static struct error *must_check check_machine(struct check *c, uint64_t address, struct m_view m)
{
	struct error *err = check_owned(c, "m.g0->m", m_view_g0(m), address);

	if (!err)
		err = check_owned(c, "m.gsignal->m", m_view_gsignal(m), address);
	if (err)
		return err;
	if (m_view_id(m) > MAX_COUNT)
		return mismatch(c, "m.id", "a small number", m_view_id(m));
	if (!is_processor(c, m_view_p(m)))
		return mismatch(c, "m.p", "0 or one of runtime.allp", m_view_p(m));
	if (m_view_incgo(m) > 1)
		return mismatch(c, "m.incgo", "0 or 1", m_view_incgo(m));
	if (m_view_lockedg(m) % 8)
		return mismatch(c, "m.lockedg", "0 or the address of a g", m_view_lockedg(m));
	if (m_view_procid(m) > MAX_PID)
		return mismatch(c, "m.procid", "the id of a thread", m_view_procid(m));
	return NULL;
}

/* At least one of the Ms runs on a thread that is there. */
static struct error *must_check check_threads(struct check *c, size_t count)
{
	_cleanup_free_ struct target_thread *threads = NULL;
	uint64_t id = 0;
	size_t thread_count;
	struct error *err;

	if (!target_pid(c->t))
		return NULL;
	err = target_threads(c->t, &threads, &thread_count);
	if (err)
		return err;
	for (size_t i = 0; i < count; i++) {
		uint64_t procid = m_view_procid(m_at(c, i));

		id = procid ? procid : id;
		for (size_t k = 0; k < thread_count; k++)
			if (procid == (uint64_t)threads[k].inner)
				return NULL;
	}
	c->starting = !id;
	return mismatch(c, "m.procid", "the id of one of its threads", id);
}

/* Whether the goroutine of one of the Ms knows it; without an error also when none has a goroutine.
 */
static struct error *must_check look_at_current(const struct check *c, const uint64_t *addresses,
						size_t count)
{
	const struct golayout_numbers *n = &c->lay->n;
	struct error *err = NULL;

	for (size_t i = 0; i < count; i++) {
		uint64_t m = addresses[i], g = 0;

		if (!m_view_curg(m_at(c, i)) ||
		    error_dropped(target_read_u64(c->t, m_at_curg(n, m), &g)) || !g)
			continue;
		error_destroy(err);
		err = check_owned(c, "m.curg->m", g, m);
		if (!err)
			return NULL;
	}
	return err;
}

/*
 * Between coroutines m.curg changes some million times a second, and a thread that waits for a CPU
 * may be in the middle of a change. So an M is read again until it has moved on.
 */
static struct error *must_check check_current(const struct check *c, const uint64_t *addresses,
					      size_t count)
{
	struct error *err = look_at_current(c, addresses, count);

	for (int i = 0; err && target_pid(c->t) && i < LOOKS; i++) {
		error_destroy(err);
		usleep(LOOK_PAUSE_US);
		err = look_at_current(c, addresses, count);
	}
	return err;
}

static struct error *must_check check_machines(struct check *c)
{
	uint64_t addresses[MACHINES];
	size_t count;
	struct error *err = read_machines(c, addresses, &count);

	if (!err)
		err = check_current(c, addresses, count);
	for (size_t i = 0; !err && i < count; i++)
		err = check_machine(c, addresses[i], m_at(c, i));
	return err ? err : check_threads(c, count);
}

/* In a truncated core file, missing memory proves nothing. */
static struct error *must_check forgive(const struct check *c, struct error *err)
{
	if (!err || err->code != ERROR_FAULT || !is_cut(c))
		return err;
	error_destroy(err);
	return NULL;
}

static struct error *must_check check_pass(struct check *c)
{
	struct error *err = check_count(c);

	if (!err)
		err = forgive(c, check_processors(c));
	if (!err)
		err = forgive(c, check_processor_ids(c));
	if (!err)
		err = forgive(c, check_goroutines(c));
	return err ? err : forgive(c, check_machines(c));
}

struct error *golayout_validate(const struct golayout *lay, const struct image *img,
				struct target *t, bool *ret_starting)
{
	size_t g_bytes = golayout_g_bytes(&lay->n), m_bytes = golayout_m_bytes(&lay->n);
	_cleanup_free_ uint8_t *buffer = malloc(SAMPLES * g_bytes + MACHINES * m_bytes);
	struct error *err = NULL;

	*ret_starting = false;
	if (!buffer)
		return &error_no_memory;
	for (int pass = 0; pass < PASSES; pass++) {
		struct check c = {.lay = lay,
				  .img = img,
				  .t = t,
				  .buffer = buffer,
				  .g_bytes = g_bytes,
				  .m_bytes = m_bytes};

		if (pass)
			usleep(FIRST_PAUSE_US << pass);
		error_destroy(err);
		err = check_pass(&c);
		*ret_starting = err && (c.starting || err->code == ERROR_FAULT);
		if (!err || c.starting ||
		    (err->code != ERROR_UNSUPPORTED && err->code != ERROR_FAULT))
			return err;
	}
	return err;
}
