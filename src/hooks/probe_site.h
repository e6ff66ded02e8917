/*
 * Where a function of the target can be patched. A probe site is one instruction that is at least
 * as long as a jump, so no thread can be inside it or return into it. It does not depend on its
 * address, because the stub executes a copy of it; some functions here permit that on request. One
 * file for each architecture.
 *
 * "Scratch registers" are those that the stubs use: R12 and R13 on amd64, X22 to X25 on arm64.
 */
#ifndef HOOKS_PROBE_SITE_H
#define HOOKS_PROBE_SITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "image/elf_file.h"
#include "inject/code_page.h"

/* The programs that can be patched. */
extern const enum machine probe_site_machine;
/* A call leaves its return address in a register, not on the stack. */
extern const bool probe_site_has_link_register;
/* Go 1.N from which on arguments are in registers. */
extern const int probe_site_first_with_registers;

struct probe_site {
	uint64_t address;
	size_t length; /* of the instruction; less than the jump: that must keep the byte behind */
	size_t relative; /* in it: 32 bits that say where its operand is, from its end; 0: none */
	uint8_t bytes[SITE_MAX_BYTES]; /* the original bytes: at least as long as the jump */
};

/* Arguments, in registers by Go's ABIInternal, whose values at the function's entry the hook needs.
 */
enum {
	SITE_FIRST = 1,
	SITE_SECOND = 2,
	SITE_THIRD = 4,
	SITE_FOURTH = 8,
	SITE_FIFTH = 16,
	/* Not a register: an instruction that says where its operand is relative to itself will do
	 * too. */
	SITE_RELATIVE = 32,
};

/* What of these a hook needs in a program of Go 1.`minor`. */
static inline unsigned int probe_site_needs(int minor, unsigned int arguments)
{
	return minor < probe_site_first_with_registers ? arguments & SITE_RELATIVE : arguments;
}

/* Where such a program has the arguments, from SP in a frame of so many bytes; 0: in registers. */
static inline uint16_t probe_site_arguments(int minor, int32_t frame)
{
	return minor < probe_site_first_with_registers ? (uint16_t)(frame + 8) : 0;
}

/*
 * The first such instruction where the function has set up its frame: the frame pointer is its own,
 * these registers hold its arguments, the scratch registers and the flags are free. `past_calls`:
 * also behind calls, where no arguments are left. `name` is for messages. ERROR_UNSUPPORTED: the
 * code is not as it should be.
 */
struct error *probe_site_at_body(const char *name, uint64_t address, const uint8_t *code,
				 size_t size, unsigned int arguments, bool past_calls,
				 struct probe_site *ret) must_check;

/* The first such instruction that loads from `offset` behind a register; the scratch registers and
 * the flags are free there. */
struct error *probe_site_at_load(const char *name, uint64_t address, const uint8_t *code,
				 size_t size, uint32_t offset, struct probe_site *ret) must_check;

/*
 * Where the function asks whether to call `called` for the nth time, counted from 1: the last read
 * of a variable before that call, of one that it reads at another place as well. `code` is all of
 * it. The scratch registers and the flags are free there.
 */
struct error *probe_site_before_call(const char *name, uint64_t address, const uint8_t *code,
				     size_t size, uint64_t called, unsigned int nth,
				     struct probe_site *ret) must_check;

/* The address of the function's last call of `called`; its end if there is none. `code` is all of
 * it.
 */
uint64_t probe_site_last_call(uint64_t address, const uint8_t *code, size_t size, uint64_t called);

enum probe_site_which { SITE_BEGIN = 1, SITE_RETURNS = 2 };

/* Where a function begins and returns. */
struct probe_site_ends {
	struct probe_site begin;
	unsigned int changed; /* SITE_*: registers without their values at the entry, at `begin` */
	struct probe_site *returns; /* free() it */
	size_t return_count;
};

/*
 * For any function that Go's compiler made: `code` is all of it. A thread of it may stand at any
 * instruction, and come back to it. It begins behind the check for room on the stack, so what that
 * makes it repeat is seen once; the scratch registers and the flags are free at each probe site.
 * Where no instruction is large enough one of four bytes is taken. A place where the registers
 * `arguments` (SITE_*) still have their values is preferred. `which` is a sum of enum
 * probe_site_which: only these are looked for.
 *
 * ERROR_UNSUPPORTED, in words that go on after the function's name: "is ...".
 */
struct error *probe_site_ends(uint64_t address, const uint8_t *code, size_t size,
			      unsigned int which, unsigned int arguments,
			      struct probe_site_ends *ret) must_check;

#endif
