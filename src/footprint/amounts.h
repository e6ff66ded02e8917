/* Words for amounts of memory; for the files of this room. */
#ifndef FOOTPRINT_AMOUNTS_H
#define FOOTPRINT_AMOUNTS_H

#include <stdint.h>

/* "1.25 GiB", "980 MiB", "0 B". */
const char *amount_text(uint64_t bytes, char ret[static 16]);

#endif
