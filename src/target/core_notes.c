/*
 * The notes of a core file. Structures: Linux, include/linux/elfcore.h (elf_prstatus,
 * elf_prpsinfo), arch/x86/include/uapi/asm/ptrace.h and arch/arm64/include/uapi/asm/ptrace.h (the
 * order of registers), fs/binfmt_elf.c (NT_FILE). They are read by their offsets, so that a core of
 * one machine is read on any other.
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "target/core.h"

#define STATUS_SIGNAL 12
#define STATUS_PID 32
#define STATUS_REGISTERS 112
#define INFO_PID 24
#define INFO_COMMAND 40

enum {
	AMD64_RBP = 4,
	AMD64_RIP = 16,
	AMD64_RSP = 19,
	ARM64_FP = 29,
	ARM64_LR = 30,
	ARM64_SP = 31,
	ARM64_PC = 32,
};

static uint64_t register_at(struct cursor *c, unsigned int index)
{
	cursor_seek(c, STATUS_REGISTERS + 8 * index);
	return cursor_u64(c);
}

/* Where each is in struct user_regs_struct, by DWARF's number (System V ABI, AMD64 supplement). */
static const uint8_t amd64_general[] = {10, 12, 11, 5, 13, 14, AMD64_RBP, AMD64_RSP,
					9,  8,  7,  6, 3,  2,  1,         0};

static struct target_registers read_registers(struct cursor *c, uint16_t machine)
{
	struct target_registers r = {0};

	if (machine == EM_X86_64) {
		for (size_t i = 0; i < ARRAY_SIZE(amd64_general); i++)
			r.general[i] = register_at(c, amd64_general[i]);
		r.pc = register_at(c, AMD64_RIP);
		r.sp = register_at(c, AMD64_RSP);
		r.fp = register_at(c, AMD64_RBP);
		return r;
	}
	for (size_t i = 0; i < ARRAY_SIZE(r.general); i++)
		r.general[i] = register_at(c, i);
	r.pc = register_at(c, ARM64_PC);
	r.sp = register_at(c, ARM64_SP);
	r.fp = register_at(c, ARM64_FP);
	r.lr = register_at(c, ARM64_LR);
	return r;
}

/* One for each thread; the kernel puts the one that took the signal first. */
static struct error *read_status(struct core *core, struct cursor *c)
{
	struct core_thread thread;
	int number;

	cursor_seek(c, STATUS_SIGNAL);
	number = (int16_t)cursor_u16(c);
	cursor_seek(c, STATUS_PID);
	thread.id = (pid_t)cursor_u32(c);
	thread.registers = read_registers(c, core->info.machine);
	if (c->failed)
		return NULL;
	if (!array_reserve(&core->threads, &core->thread_capacity, core->thread_count + 1))
		return &error_no_memory;
	if (!core->thread_count) {
		core->info.thread = thread.id;
		core->info.signal = number;
	}
	core->threads[core->thread_count++] = thread;
	return NULL;
}

static void read_process(struct core *core, struct cursor *c)
{
	uint32_t pid;
	const char *command;

	cursor_seek(c, INFO_PID);
	pid = cursor_u32(c);
	cursor_seek(c, INFO_COMMAND);
	command = cursor_bytes(c, sizeof(core->command) - 1);
	if (c->failed)
		return;
	core->info.pid = (pid_t)pid;
	memcpy(core->command, command, sizeof(core->command) - 1);
}

static void read_signal(struct core *core, struct cursor *c)
{
	int number = (int)cursor_u32(c);
	int code;
	uint64_t detail;

	cursor_seek(c, 8);
	code = (int)cursor_u32(c);
	cursor_seek(c, 16);
	detail = cursor_u64(c);
	if (c->failed)
		return;
	core->info.signal = number;
	core->info.code = code;
	if (code <= 0)
		core->info.sender = (pid_t)(uint32_t)detail;
	else
		core->info.fault_address = detail;
}

static void read_auxv(struct core *core, struct cursor *c)
{
	for (;;) {
		uint64_t type = cursor_u64(c), value = cursor_u64(c);

		if (c->failed || type == AT_NULL)
			return;
		if (type == AT_ENTRY)
			core->entry = value;
		else if (type == AT_EXECFN)
			core->exec_name = value;
	}
}

/* count, page size, count times {start, end, offset in pages}, then the names. */
static struct error *read_mapped(struct core *core, struct cursor *c)
{
	uint64_t count = cursor_u64(c), page = cursor_u64(c);
	struct cursor names = *c;

	if (c->failed || count > (size_t)(c->end - c->at) / 24 || core->mapped_count)
		return NULL;
	cursor_seek(&names, 16 + count * 24);
	if (!array_reserve(&core->mapped, &core->mapped_capacity, count))
		return &error_no_memory;
	for (uint64_t i = 0; i < count; i++) {
		struct core_mapped *m = &core->mapped[i];

		m->start = cursor_u64(c);
		m->end = cursor_u64(c);
		m->offset = cursor_u64(c) * page;
		m->path = cursor_string(&names);
		if (c->failed || names.failed)
			return NULL;
		core->mapped_count = i + 1;
	}
	return NULL;
}

static int compare_mapped(const void *a, const void *b)
{
	const struct core_mapped *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

static struct error *must_check read_mapped_sorted(struct core *core, struct cursor *c)
{
	struct error *err = read_mapped(core, c);

	if (core->mapped_count)
		qsort(core->mapped, core->mapped_count, sizeof(*core->mapped), compare_mapped);
	return err;
}

static struct error *read_note(struct core *core, uint32_t type, struct cursor *c)
{
	switch (type) {
	case NT_PRSTATUS:
		return read_status(core, c);
	case NT_PRPSINFO:
		read_process(core, c);
		return NULL;
	case NT_SIGINFO:
		/* gcore writes one for each thread. */
		if (core->thread_count <= 1)
			read_signal(core, c);
		return NULL;
	case NT_AUXV:
		read_auxv(core, c);
		return NULL;
	case NT_FILE:
		return read_mapped_sorted(core, c);
	default:
		return NULL;
	}
}

struct error *core_read_notes(struct core *core, const void *bytes, size_t size)
{
	struct cursor c = cursor_of(bytes, size, "notes");
	struct error *err = NULL;

	while (!err && c.end - c.at >= 12) {
		uint32_t name_size = cursor_u32(&c), desc_size = cursor_u32(&c);
		uint32_t type = cursor_u32(&c);
		const char *name = cursor_bytes(&c, (name_size + 3ull) & ~3ull);
		const char *desc = cursor_bytes(&c, desc_size);
		struct cursor note;

		if (c.failed)
			break;
		note = cursor_of(desc, desc_size, "a note");
		if (name_size == 5 && !memcmp(name, "CORE", 5))
			err = read_note(core, type, &note);
		if (-desc_size % 4 > (size_t)(c.end - c.at))
			break;
		cursor_bytes(&c, -desc_size % 4);
	}
	return err;
}
