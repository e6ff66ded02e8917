/* Capabilities of this process (capabilities(7)). */
#ifndef SANDBOX_CAPABILITIES_H
#define SANDBOX_CAPABILITIES_H

#include <stdint.h>

#include "base/error.h"

/* Keeps those of `mask` that it has, by number, and gives up all others for good: permitted,
 * effective, inheritable, ambient and, where that is permitted, the bounding set. */
struct error *capabilities_keep(uint64_t mask) must_check;

#endif
