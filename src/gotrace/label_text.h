/*
 * A set of labels as one line of text in a trace: "key=value key=value", sorted by key. In keys and
 * values, spaces, control characters, '=' and '%' are written %XX. Invalid UTF-8 becomes U+FFFD.
 */
#ifndef GOTRACE_LABEL_TEXT_H
#define GOTRACE_LABEL_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"

/*
 * How labels are stored in Go's trace format: as logs of the program, outside of any task. A log of
 * the goroutine itself has the line. A log of another goroutine has the goid, a space and the line.
 * A line that does not fit into a string continues in the thread's next log.
 */
#define LABELS_BY_ITSELF "gospect.labels"
#define LABELS_BY_ANOTHER "gospect.labels.of"
#define LABELS_MORE "gospect.labels.more"

/* A log for goroutines that have waited at its stack since before the trace. It has three parts:
 * for at least how many ns they had waited (0: not known); the first goid, and how much each
 * further one is above the one before ("17+1+4"); the wait reason. */
#define PARKED_CATEGORY "gospect.parked"

/* A log of what is known of the request that the goroutine serves, as a line of labels: at its call
 * "method", "path", "peer", "trace_id" and "span_id", as far as they are known; then "route" and
 * "status", each when it is known. A status may follow the return. */
#define REQUEST_CATEGORY "gospect.request"

/* A log at the stack of an allocation that the runtime sampled for its heap profile, as a line of
 * labels: "rate", runtime.MemProfileRate, and "size", the bytes of the object. */
#define ALLOC_CATEGORY "gospect.alloc"

/* A log of a counter of the kernel, as a line of one label: its name, and its value since tracing
 * began (trace_counter_names). */
#define COUNTER_CATEGORY "gospect.counter"

struct label_pair {
	const char *key;
	size_t key_length;
	const char *value;
	size_t value_length;
};

/* Adds the line; sorts the pairs. The first of several with one key counts. */
void label_text_add(struct strbuf *sb, struct label_pair *pairs, size_t count);

/* Parses the next label of a line, and moves *text behind it; false at the end. `key` and `value`
 * get the original bytes. */
bool label_text_next(const char **text, struct strbuf *key, struct strbuf *value);

/* The value that the line has for the key; false when it has none. */
bool label_text_find(const char *text, const char *key, struct strbuf *value);

#endif
