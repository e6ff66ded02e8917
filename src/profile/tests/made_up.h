/*
 * Profiles of made-up programs with a made-up function table: for tests of writers, and for viewing
 * the page.
 */
#ifndef PROFILE_TESTS_MADE_UP_H
#define PROFILE_TESTS_MADE_UP_H

#include "profile/profile_symbols.h"

struct made_up_word {
	struct go_frame frames[3];
	size_t count;
};

struct made_up {
	struct profile *profile;
	struct intern names; /* "function file:line", words are made of */
	struct made_up_word *words;
	size_t word_count;
	size_t word_capacity;
	uint64_t random;
};

/* The key and values of a sample; times in milliseconds, at 100 Hz. */
struct made_up_sample {
	enum profile_state state;
	const char *wait;   /* or NULL */
	const char *labels; /* "key=value key=value", sorted, or NULL */
	uint64_t wall_ms;
	uint64_t idle_ms;
	uint64_t longest_ms; /* of goroutine 18 */
};

/* All of these abort() when there is no memory, because they are for tests. */
void made_up_init(struct made_up *m, const char *command, uint64_t duration_ms);
void made_up_deinit(struct made_up *m);

/*
 * Adds a sample with the stack "root;...;leaf". A frame is "function", "function file:line", and
 * with " <- " several frames of one word: the left one was inlined into the right one. A frame that
 * begins with '~' is a wrapper; "[running]" and the like are pseudo words.
 */
void made_up_add(struct made_up *m, const struct made_up_sample *sample, const char *stack);

/* Likewise, by several goroutines during this time. */
void made_up_add_from(struct made_up *m, const struct made_up_sample *sample, uint64_t from_ms,
		      uint64_t to_ms, const char *stack);

struct profile_symbols *made_up_symbolize(const struct made_up *m);

/* Five stacks with round numbers: 10 s in all. */
void made_up_small(struct made_up *m);
/* The same program later, for half as long, and with a cache: also 10 s. */
void made_up_grown(struct made_up *m);
/* A second in each wait reason. */
void made_up_waits(struct made_up *m);
/* A second of a lock; waits for semaphores of the collector, 3 s by memory and half by a trace. */
void made_up_collector(struct made_up *m);
/* A program that sleeps: 5 s, of which 10 ms ran. */
void made_up_idle(struct made_up *m);
/* As many goroutines as 500 do the same, and one or two work. */
void made_up_crowd(struct made_up *m);
/* A function that calls itself: a second at each depth from 1 to 3. */
void made_up_recursive(struct made_up *m);
/* No sample; a comment names the filter. */
void made_up_nothing(struct made_up *m);
/* A web service with a database, a cache behind a mutex and background workers. */
void made_up_service(struct made_up *m);
/* 10 s in which ten goroutines wait for a lock from 0.5 s to 1 s, 2.5 s to 3 s and so on; one
 * computes in the rest of the time, and one waits for work. */
void made_up_bursts(struct made_up *m);
/* An hour, in which the number of goroutines grows. */
void made_up_hour(struct made_up *m);
/* The service, and as many other distinct stacks. */
void made_up_large(struct made_up *m, size_t stacks);
/* Names, labels and reasons that try to break out of every format. */
void made_up_hostile(struct made_up *m);

#endif
