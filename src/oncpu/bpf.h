/*
 * The few calls of bpf(2) that load a small program and its maps, and an assembler for such a
 * program. Sources: bpf(2), include/uapi/linux/bpf.h, Documentation/bpf/standardization.
 *
 * Jumps lead forward, to named places. So a program has no loops, and it always ends.
 */
#ifndef ONCPU_BPF_H
#define ONCPU_BPF_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "target/access.h"

enum { BPF_MAX_CODE = 1024 };

struct bpf_code {
	struct bpf_insn insns[BPF_MAX_CODE];
	size_t count;
	/* A jump holds the number of its place until that place is defined. */
	bool is_jump[BPF_MAX_CODE];
	bool is_wrong; /* too long, or a jump leads nowhere or back */
};

/* To the register `dst`. */
void bpf_set(struct bpf_code *c, int dst, int32_t value);
void bpf_copy(struct bpf_code *c, int dst, int src);
void bpf_add(struct bpf_code *c, int dst, int32_t value);
void bpf_add_register(struct bpf_code *c, int dst, int src);
void bpf_operate(struct bpf_code *c, int operation, int dst, int32_t value); /* BPF_AND ... */
void bpf_set_map(struct bpf_code *c, int dst, int fd);
/* 1, 4 or 8 bytes, at [register + offset]. */
void bpf_load(struct bpf_code *c, size_t size, int dst, int src, int16_t offset);
void bpf_store(struct bpf_code *c, size_t size, int dst, int16_t offset, int src);
/* BPF_JEQ, BPF_JGT ...: jumps to a place that is defined later. */
void bpf_jump_if(struct bpf_code *c, int condition, int dst, int32_t value, int place);
void bpf_jump(struct bpf_code *c, int place);
void bpf_place(struct bpf_code *c, int place);
/* Arguments are in registers 1 to 5, which the call overwrites; the result is in 0. */
void bpf_call(struct bpf_code *c, int helper);
void bpf_exit(struct bpf_code *c);

/* The caller closes the result. ERROR_DENIED says what would permit it. */
struct error *bpf_map_open(enum bpf_map_type type, size_t key, size_t value, size_t entries,
			   int *ret) must_check;
struct error *bpf_map_put(int fd, const void *key, const void *value) must_check;
struct error *bpf_program_open(const struct bpf_code *c, enum bpf_prog_type type,
			       int *ret) must_check;

/* Why bpf(2) is denied to `self`; `err` is its errno. */
struct error *bpf_explain(const struct access_self *self, int err) must_check;

#endif
