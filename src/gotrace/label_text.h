/*
 * A set of labels as one line of text, as a trace has it: "key=value key=value", sorted by key. In
 * both, bytes that would be taken for something else are written %XX: spaces and controls, '=' and
 * '%'. What is no UTF-8 is U+FFFD.
 */
#ifndef GOTRACE_LABEL_TEXT_H
#define GOTRACE_LABEL_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"

/*
 * How labels are in Go's trace format: as logs of the program would be, outside of any task. By
 * the goroutine itself, the line; by another, its goid, a space and the line. What does not fit a
 * string goes on in the thread's next one.
 */
#define LABELS_BY_ITSELF "gospect.labels"
#define LABELS_BY_ANOTHER "gospect.labels.of"
#define LABELS_MORE "gospect.labels.more"

struct label_pair {
	const char *key;
	size_t key_length;
	const char *value;
	size_t value_length;
};

/* Adds the line; sorts the pairs. Of several with one key the first counts. */
void label_text_add(struct strbuf *sb, struct label_pair *pairs, size_t count);

/* The next label of a line: *text is moved behind it; false when there is none. Key and value are
 * put into the two, as they were. */
bool label_text_next(const char **text, struct strbuf *key, struct strbuf *value);

/* The value that the line has for the key; false when it has none. */
bool label_text_find(const char *text, const char *key, struct strbuf *value);

#endif
