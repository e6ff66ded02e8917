/* The slowest requests of a trace and their critical paths (requests/critical_path.h), for the
 * page. */
#ifndef PROFILE_REQUEST_PATHS_H
#define PROFILE_REQUEST_PATHS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Requests that a page shows, and parts of each: of a longer path the shortest are left out. */
#define REQUEST_PATHS_MOST 20u
#define REQUEST_PATHS_MOST_PARTS 500u

/* What a goroutine did that the request needed. Texts are numbers in the profile's strings. */
struct request_path_part {
	uint64_t begin; /* ns since the profile began */
	uint64_t end;
	uint64_t goroutine;
	uint32_t start;    /* function; 0: not known */
	uint32_t wait;     /* the wait reason; 0: it did not wait */
	uint32_t function; /* where it was, without plumbing; 0: not known */
	uint32_t line;
	uint32_t depth; /* waits between it and the request's goroutine */
	uint8_t state;  /* enum profile_state; PROFILE_STATES: not known */
};

struct request_path {
	uint32_t name;
	uint64_t goroutine;
	uint64_t begin;
	uint64_t end;
	size_t first; /* its parts, in the order of time */
	size_t count;
};

struct request_paths {
	struct request_path items[REQUEST_PATHS_MOST]; /* slowest first */
	size_t count;
	struct request_path_part *parts;
	size_t part_count;
	size_t part_capacity;
};

/* Further requests, and further parts of the last one, are ignored. False: no memory. */
void request_paths_add(struct request_paths *p, const struct request_path *request);
bool request_paths_add_part(struct request_paths *p, const struct request_path_part *part);
void request_paths_release(struct request_paths *p);

#endif
