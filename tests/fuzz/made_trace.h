/* Traces of made-up schedules: seeds for the targets that read traces. */
#ifndef FUZZ_MADE_TRACE_H
#define FUZZ_MADE_TRACE_H

#include "base/strbuf.h"
#include "gotrace/trace_format.h"

/* Gives some files of this format, with labels, waits, and calls of main.root. */
void made_traces(const struct trace_format *format,
		 void (*take)(void *arg, const struct strbuf *file), void *arg);

#endif
