/* The functions that an ELF file's symbols name: .symtab, or .dynsym where that was stripped. */
#ifndef IMAGE_FUNCTION_SYMBOLS_H
#define IMAGE_FUNCTION_SYMBOLS_H

#include <libelf.h>
#include <stddef.h>
#include <stdint.h>

struct function_symbol {
	uint64_t address; /* in the file */
	uint64_t size;    /* 0: up to the next */
	const char *name; /* in the file's bytes */
};

struct function_symbols {
	struct function_symbol *items; /* by address */
	size_t count;
	size_t capacity;
};

/* Without memory there are none. */
void function_symbols_read(struct function_symbols *s, Elf *elf);
void function_symbols_release(struct function_symbols *s);

/* NULL when the address is in none. */
const char *function_symbols_find(const struct function_symbols *s, uint64_t address);

#endif
