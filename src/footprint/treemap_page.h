/* The parts of the page before and after its data, made from page/ by page/embed.py. */
#ifndef FOOTPRINT_TREEMAP_PAGE_H
#define FOOTPRINT_TREEMAP_PAGE_H

#include <stddef.h>

extern const unsigned char treemap_before_data[];
extern const size_t treemap_before_data_size;
extern const unsigned char treemap_after_data[];
extern const size_t treemap_after_data_size;

#endif
