/* How the process of a core file ended, and what the core lacks. */
#ifndef LIB_CORE_REMARK_H
#define LIB_CORE_REMARK_H

#include "dump/dump.h"
#include "lib/remark.h"

void core_remark(const struct remark *to, const struct dump *dump);

#endif
