/*
 * The ids in a traceparent, 00-TRACE_ID-SPAN_ID-FLAGS, each in lower-case hexadecimal digits (W3C
 * Trace Context). The text is hostile.
 */
#ifndef LABELS_TRACEPARENT_H
#define LABELS_TRACEPARENT_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum {
	TRACEPARENT_LENGTH = 55,
	TRACE_ID = 3,
	TRACE_ID_LENGTH = 32,
	SPAN_ID = 36,
	SPAN_ID_LENGTH = 16,
	TRACE_FLAGS = 53,
};

/* Of so many digits; zero is invalid. */
static inline bool is_trace_id(const char *digits, size_t length)
{
	size_t zeros = 0;

	for (size_t i = 0; i < length; i++) {
		if (!digits[i] || !strchr("0123456789abcdef", digits[i]))
			return false;
		zeros += digits[i] == '0';
	}
	return zeros < length;
}

/* Whether the ids are at TRACE_ID and SPAN_ID. Version ff is invalid. */
static inline bool is_traceparent(const char *text, size_t length)
{
	return length >= TRACEPARENT_LENGTH && text[2] == '-' && text[SPAN_ID - 1] == '-' &&
	       text[TRACE_FLAGS - 1] == '-' && memcmp(text, "ff", 2) &&
	       is_trace_id(text + TRACE_ID, TRACE_ID_LENGTH) &&
	       is_trace_id(text + SPAN_ID, SPAN_ID_LENGTH);
}

#endif
