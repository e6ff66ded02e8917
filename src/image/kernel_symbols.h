/*
 * The names of the kernel's functions, of its modules too: /proc/kallsyms. Source: proc(5),
 * kernel/kallsyms.c (s_show, kallsyms_show_value): a reader without the right to addresses reads
 * zeros.
 */
#ifndef IMAGE_KERNEL_SYMBOLS_H
#define IMAGE_KERNEL_SYMBOLS_H

#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "target/access.h"

struct kernel_symbols;

/* ERROR_DENIED: the addresses are hidden from us, and what to do. */
struct error *kernel_symbols_open(struct kernel_symbols **ret) must_check;
void kernel_symbols_close(struct kernel_symbols *k);

/* The same from a file of that format; *ret is NULL when it has no address of a function. */
struct error *kernel_symbols_read(FILE *f, struct kernel_symbols **ret) must_check;
/* Why there are none; `restrict_level` is kernel.kptr_restrict. */
struct error *kernel_symbols_explain(const struct access_self *self, int restrict_level) must_check;

/* The function that holds this address, "vfs_read_[k]"; "[kernel]" where none does. Stays until
 * kernel_symbols_close(). */
const char *kernel_symbols_function(const struct kernel_symbols *k, uint64_t address);

static inline void cleanup_kernel_symbols(struct kernel_symbols **k)
{
	kernel_symbols_close(*k);
}
#define _cleanup_kernel_symbols_ __attribute__((cleanup(cleanup_kernel_symbols)))

#endif
