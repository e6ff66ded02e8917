/* The parts of the page before and after its data, made from page/ by footprint/page/embed.py. */
#ifndef RETAINED_HOLDERS_PAGE_H
#define RETAINED_HOLDERS_PAGE_H

#include <stddef.h>

extern const unsigned char holders_before_data[];
extern const size_t holders_before_data_size;
extern const unsigned char holders_after_data[];
extern const size_t holders_after_data_size;

#endif
