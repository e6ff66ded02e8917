/* The message of the panic that ended a process: for the files of this room alone. */
#ifndef DUMP_PANIC_H
#define DUMP_PANIC_H

#include "dump/dump.h"

/*
 * Sets dump->panic to the panic values of the goroutine on whose thread the process died, the first
 * panic first. Errors and Stringers are text by then (runtime/panic.go, preprintpanics); values of
 * other kinds than text, numbers and booleans are left out. It is NULL if there was no panic, or
 * the core file lacks it.
 */
struct error *panic_read(struct target *t, const struct golayout *lay,
			 struct dump *dump) must_check;

#endif
