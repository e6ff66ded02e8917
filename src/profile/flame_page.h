/*
 * The parts of the flame graph's page, made from page/ by page/embed.py: before its data, between
 * the data and that of an earlier profile, and after both.
 */
#ifndef PROFILE_FLAME_PAGE_H
#define PROFILE_FLAME_PAGE_H

#include <stddef.h>

extern const unsigned char page_before_data[];
extern const size_t page_before_data_size;
extern const unsigned char page_between_data[];
extern const size_t page_between_data_size;
extern const unsigned char page_after_data[];
extern const size_t page_after_data_size;

#endif
