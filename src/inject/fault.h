/*
 * Named places where a test kills gospect, to check what remains in the target. gospect itself has
 * no listener; the test's program has (collect/tests/fault_listener.c).
 */
#ifndef INJECT_FAULT_H
#define INJECT_FAULT_H

__attribute__((weak)) void fault_reached(const char *name);

static inline void fault_point(const char *name)
{
	if (fault_reached)
		fault_reached(name);
}

#endif
