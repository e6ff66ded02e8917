/*
 * A set of labels as one line of text, as a trace has it: "key=value key=value", sorted by key. In
 * both, spaces, control characters, '=' and '%' are written %XX. Invalid UTF-8 becomes U+FFFD.
 */
#ifndef GOTRACE_LABEL_TEXT_H
#define GOTRACE_LABEL_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"

/*
 * How labels are stored in Go's trace format: as logs of the program, outside of any task. Logged
 * by the goroutine itself, it is the line; by another, its goid, a space and the line. A line that
 * exceeds a string continues in the thread's next log.
 */
#define LABELS_BY_ITSELF "gospect.labels"
#define LABELS_BY_ANOTHER "gospect.labels.of"
#define LABELS_MORE "gospect.labels.more"

/* A log for goroutines that have waited at its stack since before the trace: for how many ns at
 * least before it began (0: not known), a space, the first one's goid and what each is more than
 * the one before it ("17+1+4"), a space, and why. */
#define PARKED_CATEGORY "gospect.parked"

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
