#ifndef WHY_THRESHOLDS_H
#define WHY_THRESHOLDS_H

/*
 * The thresholds. A program under load waits, computes and collects garbage: each number is what
 * healthy programs stay below, as their own design or arithmetic has it.
 */
/* Seconds for which no healthy program holds a lock. */
#define STUCK_SECONDS 2.5
/* Waiters of one lock on average. Two that meet are ordinary; a queue that never empties
 * has more. */
#define LOCK_WAITERS 2
/* Of all goroutines at work. Below a third, something else determines the speed. */
#define LOCK_PART 0.33
/* Goroutines that wait for a free connection on average: at 1, requests always queue. */
#define POOL_WAITERS 1
#define POOL_PART 0.20
/* Goroutines at work that wait for a peer, and the length of such a wait. A round trip
 * across an ocean takes 0.1 s. */
#define PEER_WAITERS 1
#define PEER_PART 0.33
#define PEER_SECONDS 0.15
/* Goroutines at work in system calls for files on average: at half of one, a journal is
 * always being written. */
#define DISK_CALLS 0.5
#define DISK_PART 0.20
/* Threads in uninterruptible sleep on average: reads and writes that the page cache
 * answers take none. */
#define DISK_SLEEPERS 0.2
/* Goroutines that wait to send into one channel, and the length of such a wait. Short
 * waits are how a pipeline works. */
#define QUEUE_SENDERS 4
#define QUEUE_SECONDS 0.1
/* New goroutines of one go statement, and their part of those that there were. Workers
 * that begin are fewer, or end. */
#define LEAK_COUNT 20
#define LEAK_PART 0.10
/* Of the first goroutines of a go statement that leaks, so many end at most. */
#define LEAK_ENDED 0.05
/* Goroutines that wait at one place outside of work, and for how long: requests that
 * nobody waits for any more. */
#define CROWD_COUNT 1000
#define CROWD_SECONDS 300
/* CPU samples from which shares of CPU time are said: with 20, a share of a half is accurate to
 * 20 points. */
#define LEAST_SAMPLES 20
/* Of the CPU time. Workers of the collector use 25 % of the CPUs while it runs, and those
 * that are idle: an average of 40 % means that it hardly rests. From 45 % on, Go's own
 * limit for it (50 %) is near. */
#define GC_PART 0.40
#define GC_GRAVE_PART 0.45
/* CPUs in use, or goroutines that run or could run, below which shares of CPU time do not
 * matter. On a busy machine a program gets less than it needs. */
#define BUSY_CORES 0.15
/* Of the CPU time. Timers begin work, and do none themselves. */
#define TIMER_PART 0.25
/* Of the time in which a goroutine ran or could run. One that does other work waits
 * sometimes: for input, a lock or a channel. */
#define SPIN_PART 0.97
/* Of the time. One that is ready more than it runs may be a victim of others. */
#define SPIN_RUNNING 0.5
/* Looks at each goroutine. Of thousands, one is found running a few times by chance. */
#define SPIN_LOOKS 40
/* Of its CPU samples with one function innermost. Real computations have several. */
#define SPIN_FUNCTION 0.50
/* Periods of the quota in which it was used up, and the time for which threads were held.
 * A garbage collection may use up some. */
#define THROTTLED_PART 0.10
#define THROTTLED_TIME 0.05
/* Goroutines that wait for a CPU on average, and their part of the time in which
 * goroutines could run: they wait longer than they run. */
#define READY_COUNT 2
#define READY_PART 0.60
/* Running goroutines on average, and the least CPUs that each of them has to get. */
#define STARVED_RUNNING 0.5
#define STARVED_CORES 0.5
/* Of the machine's time that its host gave to others. */
#define STEAL_PART 0.10
/* Of a limit for memory: the rest is less than what one collection's work takes. */
#define LIMIT_PART 0.90
/* Growth of the resident memory: its part, bytes, and the least part that one function
 * allocated. A heap that reaches its size grows by less, or by many functions. */
#define GROWTH_PART 0.10
#define GROWTH_BYTES 16e6
#define GROWTH_PART_UNKNOWN 0.25
#define GROWN_PART 0.50
/* Seconds without a goroutine that runs, and the part of all that waits within its work. CPUs in
 * use: the runtime of an idle program takes less. */
#define QUIET_SECONDS 2.5
#define QUIET_PART 0.10
#define QUIET_CORES 0.01

#endif
