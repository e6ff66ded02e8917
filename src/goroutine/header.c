/* What the bytes of a g say. */
#include "goroutine/set.h"

#define SCAN_BIT 0x1000u

struct goroutine_record record_of(const struct goroutine_set *set, const uint8_t *header)
{
	const struct golayout_numbers *n = &set->lay->n;
	uint32_t status = header_u32(header, n->g_status) & ~SCAN_BIT;
	bool syscall = status == G_SYSCALL && header_u64(header, n->g_syscallsp);
	uint8_t reason = status == G_WAITING || status == G_LEAKED ? header[n->g_waitreason] : 0;

	return (struct goroutine_record){
		.sp = header_u64(header, syscall ? n->g_syscallsp : n->g_sched_sp),
		.pc = header_u64(header, syscall ? n->g_syscallpc : n->g_sched_pc),
		.goid = header_u64(header, n->g_goid),
		.key = (status & 0xff) | reason << 8 | header[n->g_tracking_seq] << 16,
	};
}

struct target_registers sched_of(const struct goroutine_set *set, const uint8_t *header)
{
	const struct golayout_numbers *n = &set->lay->n;

	return (struct target_registers){
		.pc = header_u64(header, n->g_sched_pc),
		.sp = header_u64(header, n->g_sched_sp),
		.fp = header_u64(header, n->g_sched_bp),
		.lr = set->img->machine == MACHINE_ARM64 ? header_u64(header, n->g_sched_lr) : 0,
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

static void at_least(size_t *size, int32_t field, size_t width)
{
	if (field != GOLAYOUT_ABSENT && field + width > *size)
		*size = field + width;
}

/* Up to the last field that we look at. */
size_t header_size(const struct golayout_numbers *n)
{
	size_t size = 0;

	at_least(&size, n->g_sched_bp, 8);
	at_least(&size, n->g_waitreason, 1);
	at_least(&size, n->g_tracking_seq, 1);
	at_least(&size, n->g_lockedm, 8);
	at_least(&size, n->g_parent_goid, 8);
	at_least(&size, n->g_startpc, 8);
	at_least(&size, n->g_labels, 8);
	at_least(&size, n->g_bubble, 8);
	at_least(&size, n->g_sync_group, 8);
	return size;
}

static uint64_t field(const uint8_t *header, int32_t offset)
{
	return offset == GOLAYOUT_ABSENT ? 0 : header_u64(header, offset);
}

void goroutine_details(const struct goroutine_set *set, const uint8_t *header,
		       struct goroutine_details *ret)
{
	const struct golayout_numbers *n = &set->lay->n;

	*ret = (struct goroutine_details){
		.g = field(header, n->g_sched_g),
		.goid = field(header, n->g_goid),
		.m = field(header, n->g_m),
		.locked_m = field(header, n->g_lockedm),
		.wait_since = field(header, n->g_waitsince),
		.parent = field(header, n->g_parent_goid),
		.go_pc = field(header, n->g_gopc),
		.start_pc = field(header, n->g_startpc),
		.bubble = field(header, n->g_bubble) | field(header, n->g_sync_group),
	};
}
