/* Variables by address, from the symbols of an ELF file. */
#ifndef IMAGE_DATA_SYMBOLS_H
#define IMAGE_DATA_SYMBOLS_H

#include "image/image.h"

struct data_symbols;

/* From the program's file, or its unstripped file. *ret is NULL if neither has symbols. */
struct error *data_symbols_open(const struct image *img, struct data_symbols **ret) must_check;
void data_symbols_close(struct data_symbols *s);

/* The variable at this address of the target, and the offset in it; NULL: none. */
const char *data_symbols_find(const struct data_symbols *s, uint64_t address, uint64_t *ret_offset);

static inline void cleanup_data_symbols(struct data_symbols **s)
{
	data_symbols_close(*s);
}
#define _cleanup_data_symbols_ __attribute__((cleanup(cleanup_data_symbols)))

#endif
