/* A recording without an end, cut into profiles: what is sent on while it goes on. */
#ifndef LIB_SEGMENTS_H
#define LIB_SEGMENTS_H

#include <gospect/profile.h>

#include "base/error.h"

struct segments {
	/* take() may change these. */
	double interval; /* seconds of one segment */
	double rate;     /* ticks a second, of a recording without a budget; 0: as before */
	double budget;   /* percent of a core, below 100; 0: as the options say */
	/* Before take(): so many stacks and labels are known that the recording should begin anew,
	 * before the limits are reached. */
	bool is_full;
	/*
	 * Takes the profiles of a segment, which are valid during the call: the time of all
	 * goroutines, and how many there were with each stack at its end, with the types and values
	 * of the runtime's goroutine profile. A running goroutine has the stack "[running]" there.
	 * May read the target. Anything but 0 ends the recording.
	 */
	int (*take)(struct segments *s, struct gospect_profile *wall,
		    struct gospect_profile *goroutines);
	void *arg;
};

/*
 * Records as gospect_record_stream() does. Successive segments leave no time out. It ends when the
 * target does, which is no error, when the target's calls are cancelled, or when take() says so.
 * CPU time of take() is not charged to the recording's budget. The calls are cancelled within a
 * second, at once by a signal handler of this thread.
 */
struct error *segments_record(struct gospect_target *t, const struct gospect_record_options *given,
			      struct segments *segments) must_check;

#endif
