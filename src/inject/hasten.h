/*
 * The end of a killed gospect on a busy machine. A process has ended when each of its threads has
 * run once more, and a thread of the lowest priority, SCHED_IDLE, gets no CPU for that: at a load
 * of 30 it took 3 to 25 s. Until then the process keeps its files open, and the surgeon, which
 * waits for them to be closed, leaves the agent in the target.
 */
#ifndef INJECT_HASTEN_H
#define INJECT_HASTEN_H

#include <sys/types.h>

/* Gives the usual priority to the threads of a process that have the lowest and are ending. Others
 * stay as they are. The kernel must permit it. */
void hasten_end(pid_t pid);

#endif
