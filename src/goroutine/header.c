/* Decodes the bytes of a g. */
#include "goroutine/set.h"

struct goroutine_record record_of(const struct goroutine_set *set, const uint8_t *header)
{
	struct g_view g = header_view(set, header);
	uint32_t status = g_view_status(g) & ~G_SCAN;
	bool syscall = status == G_SYSCALL && g_view_syscallsp(g);
	uint8_t reason = status == G_WAITING || status == G_LEAKED ? g_view_waitreason(g) : 0;

	return (struct goroutine_record){
		.sp = syscall ? g_view_syscallsp(g) : g_view_sched_sp(g),
		.pc = syscall ? g_view_syscallpc(g) : g_view_sched_pc(g),
		.goid = g_view_goid(g),
		.key = (status & 0xff) | reason << 8 | g_view_tracking_seq(g) << 16,
	};
}

struct target_registers sched_of(const struct goroutine_set *set, const uint8_t *header)
{
	struct g_view g = header_view(set, header);

	return (struct target_registers){
		.pc = g_view_sched_pc(g),
		.sp = g_view_sched_sp(g),
		.fp = g_view_sched_bp(g),
		.lr = set->img->machine == MACHINE_ARM64 ? g_view_sched_lr(g) : 0,
	};
}

/* A system call has a place of its own, and from Go 1.23 on (proc.go, reentersyscall) sched.bp
 * belongs to that. */
struct target_registers parked_registers(const struct goroutine_set *set, const uint8_t *header,
					 const struct goroutine_record *r)
{
	struct target_registers at = sched_of(set, header);

	if (at.sp != r->sp || at.pc != r->pc ||
	    (goroutine_status(r) == G_SYSCALL && set->lay->minor < 23))
		at.fp = 0;
	at.sp = r->sp;
	at.pc = r->pc;
	return at;
}

bool goroutine_is_alive(const struct goroutine_record *r)
{
	enum goroutine_status status = goroutine_status(r);

	return status != G_IDLE && status != G_DEAD && status != G_DEADEXTRA;
}

void goroutine_details(const struct goroutine_set *set, const uint8_t *header,
		       struct goroutine_details *ret)
{
	struct g_view g = header_view(set, header);

	*ret = (struct goroutine_details){
		.g = g_view_sched_g(g),
		.goid = g_view_goid(g),
		.m = g_view_m(g),
		.locked_m = g_view_lockedm(g),
		.wait_since = g_view_waitsince(g),
		.parent = g_view_parent_goid(g),
		.go_pc = g_view_gopc(g),
		.start_pc = g_view_startpc(g),
		.bubble = g_view_bubble(g) | g_view_sync_group(g),
	};
}
