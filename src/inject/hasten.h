/*
 * A killed process ends when each of its threads has run once more. One of the lowest priority,
 * SCHED_IDLE, gets no CPU for that on a busy machine: at a load of 30 it took 3 to 25 s. Until then
 * its files stay open, so nobody who waits for their end knows that the process was killed.
 */
#ifndef INJECT_HASTEN_H
#define INJECT_HASTEN_H

#include <sys/types.h>

/* Gives the usual priority to the threads of a process that have the lowest and are ending. Others
 * stay as they are. The kernel must permit it. */
void hasten_end(pid_t pid);

#endif
