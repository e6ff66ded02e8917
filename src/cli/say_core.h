/* What a core file tells beside its goroutines: how the process died, and what is missing. */
#ifndef CLI_SAY_CORE_H
#define CLI_SAY_CORE_H

#include "dump/dump.h"

void say_core(const struct dump *dump);

#endif
