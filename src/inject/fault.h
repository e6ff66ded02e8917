/*
 * Named places where a test has gospect killed, to see what is left of it in the target: a build
 * with -Dfault_points=true ends by SIGKILL at the one that GOSPECT_FAULT names. Other builds have
 * none.
 */
#ifndef INJECT_FAULT_H
#define INJECT_FAULT_H

#ifdef FAULT_POINTS
void fault_point(const char *name);
#else
static inline void fault_point(const char *name)
{
}
#endif

#endif
