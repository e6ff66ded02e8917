/*
 * Where the bytes of a program come from: a live process, or bytes given by a test or a recording.
 *
 * Nothing here stops the target or writes to it. Addresses are the target's own. A target may
 * change at any moment: ERROR_FAULT is an ordinary answer. A live process may be read by several
 * threads at once; any other target is used by one thread at a time.
 */
#ifndef TARGET_TARGET_H
#define TARGET_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct target;

/* A range of the target's memory, and the buffer for its bytes. */
struct target_range {
	uint64_t address;
	size_t size;
	void *buffer;
};

/* A mapping, as a line of /proc/PID/maps. */
struct target_map {
	uint64_t start;
	uint64_t end;
	uint64_t offset;
	bool readable;
	bool writable;
	bool executable;
	dev_t device;
	ino_t inode;
	char *path; /* "" when the mapping has none */
};

struct target_maps {
	struct target_map *items; /* by address */
	size_t count;
	size_t capacity;
};

/*
 * A live process. ERROR_GONE: no such process; ERROR_DENIED: we may not read its memory, and the
 * message says which rule forbids it and what to do.
 */
struct error *target_open_process(pid_t pid, struct target **ret) must_check;

/* Bytes in memory; used by tests. `segments` are copied, their bytes are not. */
struct error *target_open_memory(const struct target_range *segments, size_t count,
				 struct target **ret) must_check;

/*
 * The file that a dead process left: from the kernel, from Go's own crash (GOTRACEBACK=crash), from
 * gcore; plain or compressed by zstd (then it is unpacked into a temporary file that has no name);
 * for amd64 or arm64, whatever this machine is. A truncated file is read up to its end. `exe` names
 * the program's file; NULL: the path in the core. Bytes that the core left out are ERROR_FAULT,
 * except those from target_supply().
 */
struct error *target_open_core(const char *path, const char *exe, struct target **ret) must_check;

/* The process of this thread; `id` itself when there is no such thread. */
pid_t target_process_of(pid_t id);

void target_close(struct target *t);

/* All of [address, address + size), or ERROR_FAULT, or ERROR_GONE. */
struct error *target_read(struct target *t, uint64_t address, void *buffer, size_t size) must_check;
struct error *target_read_u64(struct target *t, uint64_t address, uint64_t *ret) must_check;
struct error *target_read_u32(struct target *t, uint64_t address, uint32_t *ret) must_check;

/*
 * Many ranges in one system call (at most TARGET_MAX_RANGES of them), filling the buffers in order.
 * The kernel stops at the first range that it cannot read: *ret_done says how many ranges are
 * whole, and a short count is not an error.
 */
#define TARGET_MAX_RANGES 1024
struct error *target_read_ranges(struct target *t, const struct target_range *ranges, size_t count,
				 size_t *ret_done) must_check;

/*
 * As target_read_ranges(), but the bytes of all ranges are concatenated in one buffer: a single
 * destination is cheaper for the kernel.
 */
struct error *target_read_packed(struct target *t, const struct target_range *ranges, size_t count,
				 void *buffer, size_t *ret_done) must_check;

/*
 * Any number of scattered ranges, each into its own buffer; those that cannot be read are left out.
 * ret_ok[i] says whether range i was read.
 */
struct error *target_read_each(struct target *t, const struct target_range *ranges, size_t count,
			       bool *ret_ok) must_check;

/* Bytes of its memory, resident or swapped out; UINT64_MAX when that is not known. */
uint64_t target_memory(const struct target *t);

/* 0 when the target is not a live process. */
pid_t target_pid(const struct target *t);

/*
 * NULL while the process still runs the program that it ran when it was opened; ERROR_GONE after an
 * exit or an exec. Costs one system call of 1 us.
 */
struct error *target_check(struct target *t) must_check;

/* Whether the target is reached through this file descriptor. */
bool target_has_descriptor(const struct target *t, int fd);

/*
 * Explains a failed or nonsensical read: ERROR_GONE when the target is gone, which then replaces
 * `err`; else err. With NULL it is target_check().
 */
struct error *target_explain(struct target *t, struct error *err) must_check;

struct error *target_maps(struct target *t, struct target_maps *ret) must_check;
void target_maps_release(struct target_maps *maps);

/* The mapping that holds the address, or NULL. */
const struct target_map *target_maps_find(const struct target_maps *maps, uint64_t address);

/* The address of the program's entry point (AT_ENTRY), which shows where the program is mapped. */
struct error *target_entry(struct target *t, uint64_t *ret) must_check;

struct target_thread {
	pid_t id;
	pid_t inner; /* the target's number, in its own pid namespace */
};

/* The threads of a process; ERROR_GONE when it does not exist. The caller frees *ret. */
struct error *target_threads(struct target *t, struct target_thread **ret,
			     size_t *ret_count) must_check;

/*
 * The program's file, opened for reading through /proc/PID/exe (right also when it was deleted or
 * lies in another mount namespace), and its name as the kernel gives it. The caller closes *ret_fd.
 */
struct error *target_open_exe(struct target *t, int *ret_fd) must_check;
const char *target_exe_name(const struct target *t);

/* The facts about its process in a core file. Strings are the target's. */
struct target_core {
	const char *path;    /* of the core file */
	const char *command; /* at most 15 bytes of the thread's name; "" when it is not said */
	uint16_t machine;    /* EM_X86_64 or EM_AARCH64 */
	pid_t pid;           /* 0 when it is not said */
	pid_t thread;        /* that took the signal */
	int signal;          /* 0: none, the process lived on */
	int code;            /* siginfo's si_code */
	pid_t sender;        /* of a signal from a process; 0: unknown */
	uint64_t fault_address;
	size_t threads;
	uint64_t size; /* of the file, unpacked */
	uint64_t whole_size;
	bool truncated; /* its end, which held memory, is missing */
};

/* NULL when the target is no core file. */
const struct target_core *target_core(const struct target *t);

struct target_registers {
	uint64_t pc;
	uint64_t sp;
	uint64_t fp;
	uint64_t lr; /* arm64; 0 on amd64 */
	/* By DWARF's numbers: rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 to r15; x0 to x30, sp. */
	uint64_t general[32];
};

/* Whether all its bytes are of one point in time, with the registers of its threads: a core file,
 * or a snapshot of a process's memory (target/memory_snapshot.h). */
bool target_stands_still(const struct target *t);

/* The registers of a thread at that time; false when they are not known, as in every live process.
 */
bool target_registers(const struct target *t, pid_t thread, struct target_registers *ret);

/* Where the first byte of the program's file was mapped; 0 when it is not known. Core files only.
 */
uint64_t target_program_start(const struct target *t);

/* The bytes that a file has for an address, read where a core leaves them out; not copied, the
 * range's buffer must live as long as the target. Does nothing to other targets. */
struct error *target_supply(struct target *t, const struct target_range *range) must_check;

static inline void cleanup_target(struct target **t)
{
	target_close(*t);
}
#define _cleanup_target_ __attribute__((cleanup(cleanup_target)))
#define _cleanup_maps_ __attribute__((cleanup(target_maps_release)))

#endif
