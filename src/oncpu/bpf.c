#include "oncpu/bpf.h"

#include <errno.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/permit.h"

/*
 * Helpers that read the program's memory and write to a ring require a GPL-compatible license.
 * These few instructions may be used under either of these two.
 */
static const char license[] = "Dual MIT/GPL";

static int bpf(enum bpf_cmd command, union bpf_attr *attr, size_t size)
{
	return syscall(SYS_bpf, command, attr, size);
}

static void emit(struct bpf_code *c, struct bpf_insn insn)
{
	if (c->count == BPF_MAX_CODE) {
		c->is_wrong = true;
		return;
	}
	c->insns[c->count++] = insn;
}

void bpf_set(struct bpf_code *c, int dst, int32_t value)
{
	emit(c,
	     (struct bpf_insn){.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = dst, .imm = value});
}

void bpf_copy(struct bpf_code *c, int dst, int src)
{
	emit(c, (struct bpf_insn){.code = BPF_ALU64 | BPF_MOV | BPF_X,
				  .dst_reg = dst,
				  .src_reg = src});
}

void bpf_operate(struct bpf_code *c, int operation, int dst, int32_t value)
{
	emit(c, (struct bpf_insn){.code = BPF_ALU64 | operation | BPF_K,
				  .dst_reg = dst,
				  .imm = value});
}

void bpf_add(struct bpf_code *c, int dst, int32_t value)
{
	bpf_operate(c, BPF_ADD, dst, value);
}

void bpf_add_register(struct bpf_code *c, int dst, int src)
{
	emit(c, (struct bpf_insn){.code = BPF_ALU64 | BPF_ADD | BPF_X,
				  .dst_reg = dst,
				  .src_reg = src});
}

void bpf_set_map(struct bpf_code *c, int dst, int fd)
{
	emit(c, (struct bpf_insn){.code = BPF_LD | BPF_DW | BPF_IMM,
				  .dst_reg = dst,
				  .src_reg = BPF_PSEUDO_MAP_FD,
				  .imm = fd});
	emit(c, (struct bpf_insn){0});
}

static int width(size_t size)
{
	return size == 8 ? BPF_DW : size == 4 ? BPF_W : BPF_B;
}

void bpf_load(struct bpf_code *c, size_t size, int dst, int src, int16_t offset)
{
	emit(c, (struct bpf_insn){.code = BPF_LDX | BPF_MEM | width(size),
				  .dst_reg = dst,
				  .src_reg = src,
				  .off = offset});
}

void bpf_store(struct bpf_code *c, size_t size, int dst, int16_t offset, int src)
{
	emit(c, (struct bpf_insn){.code = BPF_STX | BPF_MEM | width(size),
				  .dst_reg = dst,
				  .src_reg = src,
				  .off = offset});
}

void bpf_jump_if(struct bpf_code *c, int condition, int dst, int32_t value, int place)
{
	if (c->count < BPF_MAX_CODE)
		c->is_jump[c->count] = true;
	emit(c, (struct bpf_insn){
			.code = BPF_JMP | condition | BPF_K,
			.dst_reg = dst,
			.off = place,
			.imm = value,
		});
}

void bpf_jump(struct bpf_code *c, int place)
{
	bpf_jump_if(c, BPF_JA, 0, 0, place);
}

void bpf_place(struct bpf_code *c, int place)
{
	for (size_t i = 0; i < c->count; i++) {
		if (!c->is_jump[i] || c->insns[i].off != place)
			continue;
		c->is_jump[i] = false;
		c->insns[i].off = c->count - i - 1;
	}
}

void bpf_call(struct bpf_code *c, int helper)
{
	emit(c, (struct bpf_insn){.code = BPF_JMP | BPF_CALL, .imm = helper});
}

void bpf_exit(struct bpf_code *c)
{
	emit(c, (struct bpf_insn){.code = BPF_JMP | BPF_EXIT});
	for (size_t i = 0; i < c->count; i++)
		c->is_wrong |= c->is_jump[i];
}

static bool has(const struct access_self *self, int capability)
{
	return self->capabilities >> capability & 1;
}

struct error *bpf_explain(const struct access_self *self, int err)
{
	bool may = has(self, CAP_SYS_ADMIN) || (has(self, CAP_BPF) && has(self, CAP_PERFMON));

	if (err == ENOSYS && !self->filtered)
		return error_format(ERROR_UNSUPPORTED, "this kernel has no eBPF");
	if (err != EPERM && err != EACCES && err != ENOSYS)
		return error_errno(ERROR_UNSUPPORTED, err,
				   "this kernel rejects the eBPF program, which needs Linux 5.5");
	if (may && self->filtered)
		return error_format(
			ERROR_DENIED,
			"a seccomp filter forbids bpf(2); run gospect without the filter");
	if (may)
		return error_format(ERROR_DENIED,
				    "the kernel or a security module forbids bpf(2)%s",
				    self->inner_user ? " in this user namespace; run gospect on "
						       "the host"
						     : "");
	return error_format(ERROR_DENIED, "eBPF needs CAP_BPF and CAP_PERFMON; run gospect %s",
			    access_remedy(self, has(self, CAP_BPF) ? CAP_PERFMON : CAP_BPF));
}

static struct error *denied(int err)
{
	struct access_self self;

	access_self_read(&self);
	return bpf_explain(&self, err);
}

/* Before Linux 5.11, maps and programs count as locked memory. */
static void raise_locked_memory(void)
{
	struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};

	if (permitted(PERMIT_LIMITS))
		setrlimit(RLIMIT_MEMLOCK, &all);
}

static int open_map(union bpf_attr *attr)
{
	int fd = bpf(BPF_MAP_CREATE, attr, sizeof(*attr));

	if (fd >= 0 || errno != EPERM)
		return fd;
	raise_locked_memory();
	return bpf(BPF_MAP_CREATE, attr, sizeof(*attr));
}

struct error *bpf_map_open(enum bpf_map_type type, size_t key, size_t value, size_t entries,
			   int *ret)
{
	union bpf_attr attr;
	int fd;

	memset(&attr, 0, sizeof(attr));
	attr.map_type = type;
	attr.key_size = key;
	attr.value_size = value;
	attr.max_entries = entries;
	fd = open_map(&attr);
	if (fd < 0)
		return denied(errno);
	*ret = fd;
	return NULL;
}

struct error *bpf_map_put(int fd, const void *key, const void *value)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.map_fd = fd;
	attr.key = (uintptr_t)key;
	attr.value = (uintptr_t)value;
	return bpf(BPF_MAP_UPDATE_ELEM, &attr, sizeof(attr)) ? denied(errno) : NULL;
}

struct error *bpf_program_open(const struct bpf_code *c, enum bpf_prog_type type, int *ret)
{
	union bpf_attr attr;
	int fd;

	if (c->is_wrong)
		return error_format(ERROR_FAILED, "internal error: the eBPF program is malformed");
	memset(&attr, 0, sizeof(attr));
	attr.prog_type = type;
	attr.insns = (uintptr_t)c->insns;
	attr.insn_cnt = c->count;
	attr.license = (uintptr_t)license;
	fd = bpf(BPF_PROG_LOAD, &attr, sizeof(attr));
	if (fd < 0)
		return denied(errno);
	*ret = fd;
	return NULL;
}
