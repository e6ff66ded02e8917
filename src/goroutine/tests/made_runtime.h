/*
 * A made-up Go 1.27 runtime: goroutines with stacks in memory of the test, and a hook that changes
 * them between two reads. For tests.
 */
#ifndef GOROUTINE_TESTS_MADE_RUNTIME_H
#define GOROUTINE_TESTS_MADE_RUNTIME_H

#include "goroutine/goroutines.h"
#include "target/ops.h"
#include "tests/made_functions.h"

#define MADE_MAX 512
#define MADE_G 0xc000100000ull     /* the g of goroutine i is at MADE_G + i * 512 */
#define MADE_STACK 0xc000200000ull /* its stack at MADE_STACK + i * 8192, 2 KB of it used */
#define MADE_M 0xc000800000ull     /* its m at MADE_M + i * 2048 */

enum { MADE_LEAF, MADE_OTHER, MADE_ROOT, MADE_GOEXIT, MADE_SYSTEM, MADE_FUNCTIONS };

struct made_runtime {
	struct target base; /* as a target */
	struct made_functions made;
	struct image img;
	struct golayout lay;
	uint8_t g[MADE_MAX][512];
	uint8_t stack[MADE_MAX][2048];
	uint8_t m[MADE_MAX][2048];
	uint64_t allg[MADE_MAX];
	uint64_t all_pointer;
	uint64_t all_length;
	uint8_t reasons[8][16];
	/* Called before each range of memory is read. */
	void (*before_read)(struct made_runtime *r, uint64_t address, size_t size);
	size_t reads; /* calls, not ranges */
};

/* `count` goroutines that wait in MADE_LEAF under MADE_ROOT. */
void made_runtime_init(struct made_runtime *r, int minor, size_t count);
void made_runtime_release(struct made_runtime *r);

void made_set_u64(struct made_runtime *r, size_t i, int32_t field, uint64_t value);
void made_set_u8(struct made_runtime *r, size_t i, int32_t field, uint8_t value);
void made_set_status(struct made_runtime *r, size_t i, uint32_t status);
/* Puts goroutine i to where it waits in MADE_LEAF, or in MADE_OTHER; counts a run, as the runtime
 * does.
 */
void made_park(struct made_runtime *r, size_t i, bool other);

#endif
