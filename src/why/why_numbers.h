/*
 * What was measured of a program, as numbers and names: all that the rules (why_rules.h) know. It
 * is zero where it is not known, unless a member says otherwise. Strings live as long as the
 * arena; they come from the target.
 */
#ifndef WHY_WHY_NUMBERS_H
#define WHY_WHY_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "why/stack_kind.h"

/* Goroutines of one kind at one place. */
struct why_place {
	enum stack_kind kind;
	const char *function;
	const char *wait;  /* the runtime's wait reason; "" without one */
	double goroutines; /* that were there on average, without `whole` */
	double whole;      /* that were there from the first look to the last */
	double length;     /* seconds of a wait, each weighted by its own length */
};

/* Times by which the course of a number is known: equal parts of the recording. */
#define WHY_PARTS 8

/* The goroutines of one go statement. */
struct why_creator {
	const char *function;
	const char *file;
	int line;
	double first;            /* at the first look */
	double alive[WHY_PARTS]; /* at the end of each part */
	double ended;            /* of the first ones: those that ended */
	double on_network;       /* at the end: those that wait for a connection */
	double at_place;         /* at the end: those at the most frequent place */
	const char *place;       /* its function */
	const char *wait;
	double oldest; /* seconds that one of them has waited there, at least */
	bool is_work;  /* there they wait for work to do */
};

/* A goroutine that holds a lock, or may. */
struct why_holder {
	uint64_t goroutine; /* 0: not known */
	const char *function;
	const char *stands; /* what it does: its wait reason or state */
	bool proved;
	const char *reason; /* by what it is proved, or why it is a candidate */
	unsigned int looks; /* in which it, or its function, was a holder */
};

/* A lock with waiters, or a channel with goroutines that wait to send. */
struct why_object {
	const char *name;     /* "mutex 0xc0000140a8 (main.mu)" */
	const char *function; /* of the first waiter */
	double waiters;       /* in a look, on average */
	unsigned int looks;
	bool stays; /* the same goroutine waited in all looks */
	uint64_t length, capacity;
	struct why_holder holder;
};

/* A deadlock, or a cycle in which some holders are not proved. */
struct why_cycle {
	size_t goroutines;
	bool proved;
	const char
		*steps; /* "goroutine 18 in main.a waits for mutex ..., which goroutine 19 has" */
};

/* The other end of connections on which goroutines wait within their work. */
struct why_peer {
	const char *address; /* "10.0.0.7:5432"; NULL: not known */
	double goroutines;   /* that wait for it */
	int64_t fd;          /* of one connection; -1: not known */
	bool is_client;      /* the program opened the connections */
};

/* A goroutine that never waited. */
struct why_spin {
	uint64_t goroutine; /* 0: none */
	double part;        /* of the time in which it ran or could run */
	double running;     /* of the time */
	const char *function;
	double in_function; /* the part of its group's CPU samples with that function innermost */
	size_t goroutines;  /* that did so, this one too */
	double looks;       /* at it */
};

struct why_cpu {
	double cores; /* CPUs that the process used; -1: not known */
	double procs; /* GOMAXPROCS */
	double gc;    /* of the CPU time in goroutines and the runtime: -1: not known */
	double timers;
	double gc_rate;   /* collections in a second; -1: not known */
	double quota;     /* CPUs that the control group may use; 0: it has no quota */
	double periods;   /* of the quota, meanwhile */
	double throttled; /* periods in which it was used up */
	double throttled_s;
	double steal;   /* the part of the machine's time that its host took; -1: not known */
	double samples; /* of the CPU, by the kernel; the parts above need some */
	const char *unsampled; /* why there are no CPU samples; NULL: there are */
};

struct why_memory {
	uint64_t rss[2]; /* bytes at the first look and at the last; 0: not known */
	uint64_t heap_live;
	uint64_t heap_limit;  /* GOMEMLIMIT; 0: none */
	uint64_t group_limit; /* of the control group; 0: none */
	uint64_t group_used;  /* without what the kernel can drop */
	/* The function whose objects in use grew most, and its part of that growth. */
	const char *grown;
	double grown_part;
};

/* A hostile program may have any number of functions. */
#define WHY_MOST_PLACES 1024

struct why_numbers {
	struct arena strings;
	const char *target; /* as the next command names it: "-p 4711", "--core FILE" */
	double seconds;     /* 0: a single look, as at a core file */
	bool is_core;
	char state;        /* of the process: 'T' and 't' are stopped; 0: not known */
	int tracer;        /* the process that traces it */
	double goroutines; /* on average */
	double moves;      /* that were seen to run or to change their place */
	double running;    /* on average, as the following */
	double ready;
	double working;              /* all but those that wait for work */
	double of_kind[STACK_KINDS]; /* goroutines on average, without those that stayed */
	struct why_place *places;    /* most goroutines first; the first WHY_MOST_PLACES seen */
	size_t place_count;
	size_t place_capacity;
	struct why_creator *creators;
	size_t creator_count;
	struct why_object *objects; /* locks and channels, most waiters first */
	size_t object_count;
	struct why_cycle *cycles; /* proved ones first */
	size_t cycle_count;
	struct why_peer peer;
	struct why_spin spin;
	double sleeping; /* threads in uninterruptible sleep, on average; -1: not known */
	struct why_cpu cpu;
	struct why_memory memory;
};

/* With everything that is not known marked so. */
void why_numbers_init(struct why_numbers *n);
void why_numbers_release(struct why_numbers *n);

/* A copy of the text; "" when there is no memory. */
const char *why_keep(struct why_numbers *n, const char *text);

/* Adds to the place of this kind, function and wait reason. `length`: of the goroutines' waits.
 * False: no memory. */
bool why_add_place(struct why_numbers *n, const struct why_place *add);
/* Once all are added: brings them into their order. */
void why_sort_places(struct why_numbers *n);
/* The first place of this kind with at least so many goroutines; NULL: none. */
const struct why_place *why_place_of(const struct why_numbers *n, enum stack_kind kind,
				     double least);
#endif
