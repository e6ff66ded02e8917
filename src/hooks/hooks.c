#include "hooks/hooks.h"

#include <string.h>

#include "agent/cpu.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "golayout/heap_variables.h"
#include "golayout/view.h"
#include "hooks/range.h"
#include "memory/heap_profile_off.h"

#define MAX_CODE 8192
#define MAX_REASONS AGENT_NO_REASON
#define MAX_REASON_LENGTH 64
#define MAX_BATCHES 64 /* Ps whose goids are read */
#define LOOKS 1000

struct hook_rule {
	enum agent_hook hook;
	const char *function;
	int first, last; /* Go 1.N */
	bool optional;   /* only in programs that use it */
	unsigned int arguments;
	enum stub_p kind;
	bool past_calls;
	unsigned int branch_guard; /* the nth branch on whether to report a sweep */
};

enum { OLDEST = GOLAYOUT_MIN_MINOR, NEWEST = GOLAYOUT_MAX_MINOR };

/* docs/internals/trace.md has the table in words. */
static const struct hook_rule rules[] = {
	{HOOK_CASGSTATUS, "runtime.casgstatus", OLDEST, 25, false,
	 SITE_FIRST | SITE_SECOND | SITE_THIRD, STUB_CASGSTATUS},
	{HOOK_CASGSTATUS, "runtime.casgstatus", 26, NEWEST, false,
	 SITE_FIRST | SITE_SECOND | SITE_THIRD, STUB_CASGSTATUS_NO_P_IN_SYSCALL},
	{HOOK_PREEMPT_PARK, "runtime.casGToPreemptScan", OLDEST, NEWEST, false, SITE_FIRST,
	 STUB_P_OF_THREAD},
	{HOOK_CORO_SWITCH, "runtime.coroswitch_m", 22, NEWEST, true, SITE_FIRST, STUB_P_OF_THREAD},
	{HOOK_SYSCALL, "runtime.reentersyscall", 26, NEWEST, false, SITE_FIRST | SITE_THIRD,
	 STUB_SYSCALL},
	{HOOK_SYSCALL_EXIT, "runtime.exitsyscall", 26, NEWEST, false, 0, STUB_SYSCALL_EXIT},
	{HOOK_P_START, "runtime.wirep", OLDEST, NEWEST, false, SITE_FIRST, STUB_P_ARGUMENT},
	{HOOK_P_STOP, "runtime.releasep", OLDEST, 21, false, 0, STUB_P_OF_THREAD},
	{HOOK_P_STOP, "runtime.releasepNoTrace", 22, NEWEST, false, 0, STUB_P_OF_THREAD},
	{HOOK_P_STEAL, "runtime.syscallingThread.releaseP", 26, NEWEST, false, SITE_THIRD,
	 STUB_P_OF_THREAD},
	{HOOK_P_HANDOFF, "runtime.handoffp", OLDEST, 25, false, SITE_FIRST, STUB_P_OF_THREAD},
	{HOOK_STW_BEGIN, "runtime.stopTheWorldWithSema", OLDEST, 20, false, 0, STUB_P_OF_THREAD},
	/* In Go 1.21 a call of its own tracer comes first. */
	{HOOK_STW_BEGIN, "runtime.stopTheWorldWithSema", 21, 21, false, 0, STUB_P_OF_THREAD, true},
	{HOOK_STW_BEGIN, "runtime.stopTheWorldWithSema", 22, NEWEST, false, SITE_FIRST,
	 STUB_P_OF_THREAD},
	/* Compiled without optimisation, it begins with a call, too, up to Go 1.21. */
	{HOOK_STW_END, "runtime.startTheWorldWithSema", OLDEST, NEWEST, false, 0, STUB_P_OF_THREAD,
	 true},
	{HOOK_GC_BEGIN, "runtime.(*gcControllerState).startCycle", OLDEST, NEWEST, false, 0,
	 STUB_P_OF_THREAD},
	/* Likewise. */
	{HOOK_GC_END, "runtime.gcSweep", OLDEST, NEWEST, false, 0, STUB_P_OF_THREAD, true},
	{HOOK_TASK_BEGIN, "runtime/trace.userTaskCreate", OLDEST, NEWEST, true,
	 SITE_FIRST | SITE_SECOND | SITE_THIRD | SITE_FOURTH, STUB_P_OF_THREAD},
	{HOOK_TASK_END, "runtime/trace.userTaskEnd", OLDEST, NEWEST, true, SITE_FIRST,
	 STUB_P_OF_THREAD},
	{HOOK_REGION, "runtime/trace.userRegion", OLDEST, NEWEST, true,
	 SITE_FIRST | SITE_SECOND | SITE_THIRD | SITE_FOURTH, STUB_P_OF_THREAD},
	{HOOK_LOG, "runtime/trace.userLog", OLDEST, NEWEST, true,
	 SITE_FIRST | SITE_SECOND | SITE_THIRD | SITE_FOURTH | SITE_FIFTH, STUB_P_OF_THREAD},
	/* It tests first whether to notify the GC, and there are two ways then. */
	{HOOK_LABELS, "runtime/pprof.runtime_setProfLabel", OLDEST, NEWEST, true,
	 SITE_FIRST | SITE_RELATIVE, STUB_P_OF_THREAD},
};

/* All of them or none: a program with unknown code has no such events. */
static const struct hook_rule sweep_rules[] = {
	{HOOK_SWEEP_SPAN, "runtime.(*sweepLocked).sweep", OLDEST, NEWEST, false, SITE_FIRST,
	 STUB_P_OF_THREAD},
	{HOOK_SWEEP_DONE, "runtime.deductSweepCredit", OLDEST, NEWEST, false, 0, STUB_P_OF_THREAD,
	 .branch_guard = 1},
	{HOOK_SWEEP_DONE_FOUND, "runtime.(*mcentral).cacheSpan", OLDEST, NEWEST, false, 0,
	 STUB_P_OF_THREAD, .branch_guard = 1},
	{HOOK_SWEEP_DONE_NONE, "runtime.(*mcentral).cacheSpan", OLDEST, NEWEST, false, 0,
	 STUB_P_OF_THREAD, .branch_guard = 2},
	{HOOK_SWEEP_DONE_RECLAIM, "runtime.(*mheap).reclaim", OLDEST, NEWEST, false, 0,
	 STUB_P_OF_THREAD, .branch_guard = 1},
};

/* Its arguments are (p, size), from Go 1.23 on (mp, p, size). */
static const struct hook_rule allocation_rule = {HOOK_ALLOC,      "runtime.mProf_Malloc",
						 OLDEST,          NEWEST,
						 false,           SITE_SECOND,
						 STUB_P_OF_THREAD};
enum { FIRST_WITH_M = 23 };

static struct error *must_check changed_code(const char *function)
{
	return error_format(
		ERROR_DENIED,
		"the code of %s in memory differs from the program's file: another tool has "
		"patched it (debugger, uprobe); remove that tool first",
		function);
}

/* The function's code, which is in memory as it is in the file. */
static struct error *must_check read_code(struct target *t, const struct image *img,
					  const char *name, const struct go_func *f,
					  uint8_t code[MAX_CODE], size_t *ret_size)
{
	size_t size = f->end - f->entry < MAX_CODE ? f->end - f->entry : MAX_CODE;
	const uint8_t *file = image_bytes(img, f->entry, size);
	struct error *err = target_read(t, f->entry, code, size);

	if (err)
		return error_wrap(err, "cannot read the code of %s", name);
	*ret_size = size;
	return file && !memcmp(file, code, size) ? NULL : changed_code(name);
}

/* The function that reports to the runtime's own tracer; 0: none. */
static uint64_t reports_sweep(const struct image *img)
{
	struct go_func f;

	if (pclntab_find_name(&img->functions, "runtime.traceLocker.GCSweepDone", &f) ||
	    pclntab_find_name(&img->functions, "runtime.traceGCSweepDone", &f))
		return f.entry;
	return 0;
}

static struct error *must_check find_site(struct target *t, const struct image *img,
					  const struct golayout *lay, const struct hook_rule *rule,
					  struct code_site *ret)
{
	uint8_t code[MAX_CODE];
	struct probe_site site;
	struct go_func f;
	struct error *err;
	size_t size = 0;

	if (!pclntab_find_name(&img->functions, rule->function, &f))
		return rule->optional
			       ? NULL
			       : error_format(
					 ERROR_UNSUPPORTED,
					 "cannot trace this program: it has no function %s, which "
					 "tracing Go 1.%d needs",
					 rule->function, lay->minor);
	err = read_code(t, img, rule->function, &f, code, &size);
	if (err)
		return err;
	if (rule->hook == HOOK_SYSCALL_EXIT)
		err = probe_site_at_load(rule->function, f.entry, code, size, lay->n.m_oldp, &site);
	else if (rule->branch_guard)
		err = probe_site_before_call(rule->function, f.entry, code, size,
					     reports_sweep(img), rule->branch_guard, &site);
	else
		err = probe_site_at_body(rule->function, f.entry, code, size,
					 probe_site_needs(lay->minor, rule->arguments),
					 rule->past_calls, &site);
	if (err)
		return err;
	ret->arguments = probe_site_arguments(lay->minor, pclntab_sp_delta(&f, site.address));
	ret->address = site.address;
	ret->length = site.length;
	ret->relative = site.relative;
	memcpy(ret->bytes, site.bytes, sizeof(ret->bytes));
	return NULL;
}

static struct error *must_check find_sweep_sites(struct target *t, const struct image *img,
						 const struct golayout *lay, struct hooks *ret)
{
	struct code_site sites[ARRAY_SIZE(sweep_rules)] = {0};

	for (size_t i = 0; i < ARRAY_SIZE(sweep_rules); i++) {
		struct error *err = find_site(t, img, lay, &sweep_rules[i], &sites[i]);

		if (err && err->code != ERROR_UNSUPPORTED)
			return err;
		if (error_dropped(err))
			return NULL;
	}
	for (size_t i = 0; i < ARRAY_SIZE(sweep_rules); i++) {
		ret->kinds[sweep_rules[i].hook] = sweep_rules[i].kind;
		ret->sites[sweep_rules[i].hook] = sites[i];
	}
	return NULL;
}

struct error *hooks_find(struct target *t, const struct image *img, const struct golayout *lay,
			 struct hooks *ret)
{
	struct error *err = NULL;

	memset(ret, 0, sizeof(*ret));
	ret->left_out = (struct strbuf)STRBUF_INIT;
	ret->site_count = HOOKS;
	for (size_t i = 0; !err && i < ARRAY_SIZE(rules); i++) {
		const struct hook_rule *rule = &rules[i];

		if (lay->minor < rule->first || lay->minor > rule->last)
			continue;
		ret->kinds[rule->hook] = rule->kind;
		err = find_site(t, img, lay, rule, &ret->sites[rule->hook]);
	}
	return err ? err : find_sweep_sites(t, img, lay, ret);
}

struct error *hooks_add_allocations(struct target *t, const struct image *img,
				    const struct golayout *lay, struct hooks *hooks,
				    struct agent_config *config)
{
	struct hook_rule rule = allocation_rule;
	struct heap_variables variables;
	struct error *err = heap_variables_find(img, lay, &variables);
	uint64_t rate = 0;

	if (!err)
		err = target_read_u64(t, variables.mem_rate, &rate);
	if (!err && (!rate || !heap_profile_is_kept(img)))
		err = heap_profile_off(img);
	if (err)
		return err;
	config->mem_profile_rate = variables.mem_rate;
	config->alloc_size_is_third = lay->minor >= FIRST_WITH_M;
	rule.arguments = config->alloc_size_is_third ? SITE_THIRD : SITE_SECOND;
	hooks->kinds[HOOK_ALLOC] = rule.kind;
	return find_site(t, img, lay, &rule, &hooks->sites[HOOK_ALLOC]);
}

/* The number of the wait reason, from the program's own table. */
static struct error *must_check find_reason(struct target *t, const struct golayout *lay,
					    const char *text, uint8_t *ret)
{
	size_t length = strlen(text);
	char buffer[MAX_REASON_LENGTH];
	struct error *err = NULL;
	uint64_t string[2];

	for (uint64_t i = 0; i < lay->v.wait_reason_count && i < MAX_REASONS; i++) {
		err = target_read(t, lay->v.wait_reason_strings + i * sizeof(string), string,
				  sizeof(string));
		if (!err && string[1] == length)
			err = target_read(t, string[0], buffer, length);
		if (err)
			return err;
		if (string[1] == length && !memcmp(buffer, text, length)) {
			*ret = i;
			return NULL;
		}
	}
	return error_format(ERROR_UNSUPPORTED,
			    "cannot trace this program: its runtime has no wait reason \"%s\"",
			    text);
}

static void fill_ranges(const struct image *img, struct agent_config *c)
{
	c->park_m = range_of(&img->functions, "runtime.park_m");
	c->coroswitch_m = range_of(&img->functions, "runtime.coroswitch_m");
	c->entersyscallblock = range_of(&img->functions, "runtime.entersyscallblock");
	c->assist = range_of(&img->functions, "runtime.gcAssistAlloc1");
	c->retake = range_of(&img->functions, "runtime.retake");
	c->for_each_p = range_of(&img->functions, "runtime.forEachPInternal");
	if (!c->for_each_p.size)
		c->for_each_p = range_of(&img->functions, "runtime.forEachP");
	c->exitsyscall_no_p = range_of(&img->functions, "runtime.exitsyscallNoP");
	c->gosched = range_of(&img->functions, "runtime.Gosched");
	c->gosched_m = range_of(&img->functions, "runtime.gosched_m");
	c->goschedguarded_m = range_of(&img->functions, "runtime.goschedguarded_m");
	c->async_preempt2 = range_of(&img->functions, "runtime.asyncPreempt2");
	c->cache_span = range_of(&img->functions, "runtime.(*mcentral).cacheSpan");
	c->deduct_sweep_credit = range_of(&img->functions, "runtime.deductSweepCredit");
	c->reclaim = range_of(&img->functions, "runtime.(*mheap).reclaim");
	c->sweepone = range_of(&img->functions, "runtime.sweepone");
	c->reclaim_chunk = range_of(&img->functions, "runtime.(*mheap).reclaimChunk");
	c->systemstack_switch = range_of(&img->functions, "runtime.systemstack_switch").start;
}

static void fill_offsets(const struct golayout_numbers *n, struct agent_config *c)
{
	c->g_m = n->g_m;
	c->g_stack_hi = n->g_stack_hi;
	c->g_sched_sp = n->g_sched_sp;
	c->g_sched_pc = n->g_sched_pc;
	c->g_sched_bp = n->g_sched_bp;
	c->g_status = n->g_status;
	c->g_goid = n->g_goid;
	c->g_waitreason = n->g_waitreason;
	c->g_startpc = n->g_startpc;
	c->g_coroarg = n->g_coroarg;
	c->g_coroexit = n->g_coroexit;
	c->m_procid = n->m_procid;
	c->m_curg = n->m_curg;
	c->m_p = n->m_p;
	c->m_vdso_sp = n->m_vdso_sp;
	c->m_vdso_pc = n->m_vdso_pc;
	c->p_id = n->p_id;
	c->p_goidcache = n->p_goidcache;
	c->p_goidcacheend = n->p_goidcacheend;
	c->p_gc_worker_mode = n->p_gc_worker_mode;
	c->coro_gp = n->coro_gp;
	c->g_labels = n->g_labels;
	c->g_sched_lr = probe_site_has_link_register ? n->g_sched_lr : 0;
}

/* A signal makes a goroutine call asyncPreempt(). The frame of that ends where its record is, on
 * amd64; on arm64 the record is at its beginning, and the return address of what was interrupted
 * lies behind it (runtime/signal_arm64.go: pushCall). */
static uint32_t interrupted_at(const struct image *img)
{
	struct go_func f;
	int32_t frame = 0;

	if (!probe_site_has_link_register)
		return 16;
	if (pclntab_find_name(&img->functions, "runtime.asyncPreempt", &f))
		for (uint64_t pc = f.entry; pc < f.end; pc += 4)
			if (pclntab_sp_delta(&f, pc) > frame)
				frame = pclntab_sp_delta(&f, pc);
	return CPU_RECORD_BELOW_SP + (uint32_t)frame;
}

/* The agent stores frequent offsets in 16 bits. A hostile program's DWARF may exceed them. */
static bool offsets_fit(const struct golayout_numbers *n)
{
	return (n->g_stack_hi | n->g_sched_sp | n->g_sched_pc | n->g_sched_bp | n->g_status |
		n->g_goid | n->g_waitreason | n->m_procid | n->m_curg | n->m_vdso_sp) <= UINT16_MAX;
}

/* A P's batch of goids: from the next one up to the last one that was assigned. Read while the P
 * takes another, it is neither. */
static struct error *must_check is_batch(struct target *t, const struct golayout *lay, uint64_t p,
					 bool *ret)
{
	uint64_t next, end, last;
	struct error *err = target_read_u64(t, p_at_goidcache(&lay->n, p), &next);

	if (!err)
		err = target_read_u64(t, p_at_goidcacheend(&lay->n, p), &end);
	if (!err)
		err = target_read_u64(t, sched_at_goidgen(&lay->n, lay->v.sched), &last);
	if (!err)
		*ret = end - next <= AGENT_GOID_BATCH && end <= last + 1;
	return err;
}

/* Up to Go 1.23 the agent takes such batches (agent.c: next_goid()): not where none are. */
static struct error *must_check check_goids(struct target *t, const struct golayout *lay)
{
	uint64_t slice[2], p;
	struct error *err = target_read(t, lay->v.allp, slice, sizeof(slice));

	for (uint64_t i = 0; !err && i < slice[1] && i < MAX_BATCHES; i++) {
		bool ok = false;

		err = target_read_u64(t, slice[0] + i * sizeof(p), &p);
		for (unsigned int look = 0; !err && p && !ok && look < LOOKS; look++)
			err = is_batch(t, lay, p, &ok);
		if (!err && p && !ok)
			return error_format(
				ERROR_UNSUPPORTED,
				"cannot trace this program: it does not assign goroutine ids as "
				"Go 1.%d does",
				lay->minor);
	}
	return err;
}

/* The numbers of the wait reasons that the agent goes by. */
static struct error *must_check fill_reasons(struct target *t, const struct golayout *lay,
					     struct agent_config *c)
{
	struct error *err = find_reason(t, lay, "GC worker (idle)", &c->worker_reason);

	/* g.waitreason is set by gopark() alone before Go 1.20. */
	if (err || lay->minor < 20)
		return err;
	err = find_reason(t, lay, "GC worker (active)", &c->worker_active_reason);
	return err ? err : find_reason(t, lay, "GC assist marking", &c->assist_reason);
}

struct error *hooks_config(struct target *t, const struct image *img, const struct golayout *lay,
			   uint32_t depth, struct agent_config *ret)
{
	struct error *err = NULL;

	if (!offsets_fit(&lay->n))
		return error_format(
			ERROR_UNSUPPORTED,
			"cannot trace this program: its runtime.g and runtime.m are larger than "
			"gospect supports");
	*ret = (struct agent_config){.depth = depth,
				     .dead_extra = lay->minor >= 26 ? 11 : 6,
				     .goid_late = lay->minor <= 23,
				     .syscall_is_hook = lay->minor >= 26,
				     .worker_active_reason = AGENT_NO_REASON,
				     .assist_reason = AGENT_NO_REASON,
				     .label_maps = lay->minor <= 23,
				     .goidgen = sched_at_goidgen(&lay->n, lay->v.sched),
				     .text = img->functions.text};
	fill_offsets(&lay->n, ret);
	fill_ranges(img, ret);
	ret->interrupted = interrupted_at(img);
	if (!ret->park_m.size || !ret->assist.size)
		return error_format(
			ERROR_UNSUPPORTED,
			"cannot trace this program: it has no functions runtime.park_m and "
			"runtime.gcAssistAlloc1, which tracing needs");
	if (ret->goid_late)
		err = check_goids(t, lay);
	return err ? err : fill_reasons(t, lay, ret);
}

void hooks_sites(const struct hooks *hooks, struct agent_sites *ret)
{
	for (size_t i = 0; i < hooks->site_count; i++)
		ret->addresses[i] = hooks->sites[i].address;
	memcpy(ret->entry_sites, hooks->entry_sites, sizeof(ret->entry_sites));
	memcpy(ret->entry_points, hooks->entry_points, sizeof(ret->entry_points));
}
