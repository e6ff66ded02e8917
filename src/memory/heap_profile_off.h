/*
 * Why a program keeps no heap profile. If nothing in it refers to the heap profile, the linker sets
 * runtime.MemProfileRate to 0 (cmd/link, disableMemoryProfiling).
 */
#ifndef MEMORY_HEAP_PROFILE_OFF_H
#define MEMORY_HEAP_PROFILE_OFF_H

#include "base/error.h"
#include "image/image.h"

/* False: the linker has turned it off. */
bool heap_profile_is_kept(const struct image *img);

/* ERROR_FAILED, with the reason and what to do. */
struct error *heap_profile_off(const struct image *img) must_check;

#endif
