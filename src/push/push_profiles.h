/*
 * The profiles of a segment, as they are pushed: each has what one of a server's views shows. A
 * recording gives two, `process_cpu` and `wall`, because servers keep one kind of value, with one
 * period, in each.
 */
#ifndef PUSH_PUSH_PROFILES_H
#define PUSH_PUSH_PROFILES_H

#include <gospect/profile.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "profile.pb-c.h"
#include "push/process_labels.h"

/* Some of the values of a pprof message. */
struct push_profile {
	const char *name; /* "process_cpu" */
	const Pprof__Profile *of;
	size_t first, count; /* values of each sample */
};

enum { PUSH_MOST_PROFILES = 4, PUSH_MOST_MESSAGES = 3 };

struct push_segment {
	const struct labels *labels;
	struct push_profile profiles[PUSH_MOST_PROFILES];
	size_t count;
	Pprof__Profile *messages[PUSH_MOST_MESSAGES];
	size_t message_count;
};

enum push_kind { PUSH_WALL, PUSH_MEMORY, PUSH_GOROUTINES };

/* Adds what the library's profile has. */
struct error *push_segment_add(struct push_segment *s, enum push_kind kind,
			       const struct gospect_profile *from) must_check;
void push_segment_release(struct push_segment *s);

/* Whether a sample has one of the profile's values. */
bool push_profile_has(const struct push_profile *p, const Pprof__Sample *sample);

/* The profile alone as a gzipped pprof file. */
struct error *push_profile_pack(const struct push_profile *p, struct strbuf *ret) must_check;

/* Adds the bytes as a gzip file. */
struct error *push_gzip(const void *bytes, size_t size, struct strbuf *ret) must_check;

#define _cleanup_push_segment_ __attribute__((cleanup(push_segment_release)))

#endif
