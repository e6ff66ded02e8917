/*
 * Errors are objects; NULL is success.
 *
 * A function that can fail returns struct error * and is marked must_check. The caller that gets an
 * error frees it, returns it, or wraps it with what was being tried. Faults of the target's memory,
 * lack of memory and a request to stop are static objects, so that a read that races with the
 * target allocates nothing. error_destroy() takes static objects and NULL as well.
 *
 * A message is one line without a final full stop: what was tried, on what, and what to do.
 */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <stdbool.h>

#define must_check __attribute__((warn_unused_result))

enum error_code {
	ERROR_FAILED,      /* anything that has no code of its own */
	ERROR_NO_MEMORY,   /* we ran out of memory */
	ERROR_FAULT,       /* that memory of the target cannot be read: an ordinary case */
	ERROR_GONE,        /* the target exited, or became another program by exec */
	ERROR_DENIED,      /* the kernel does not let us */
	ERROR_NOT_GO,      /* the target is not a Go program */
	ERROR_UNSUPPORTED, /* a Go program that we do not know how to read */
	ERROR_CORRUPT,     /* bytes that do not mean what they should */
	ERROR_STOPPED,     /* the user asked gospect to stop */
	ERROR_USAGE,       /* the command line is wrong */
};

struct error {
	enum error_code code;
	bool is_static;
	const char *message;
};

extern struct error error_no_memory;
extern struct error error_fault;
extern struct error error_stopped;

struct error *error_format(enum error_code code, const char *format, ...) must_check
	__attribute__((format(printf, 2, 3)));

/* As error_format(), with ": " and the text of errno behind it. */
struct error *error_errno(enum error_code code, int err, const char *format, ...) must_check
	__attribute__((format(printf, 3, 4)));

/* Puts "<format>: " before the message; the code stays. Consumes err. NULL stays NULL. */
struct error *error_wrap(struct error *err, const char *format, ...) must_check
	__attribute__((format(printf, 2, 3)));

void error_destroy(struct error *err);

/* Frees err and returns whether there was one: for callers to which a failure is an ordinary
 * answer. */
bool error_dropped(struct error *err);

static inline void cleanup_error(struct error **err)
{
	error_destroy(*err);
}
#define _cleanup_error_ __attribute__((cleanup(cleanup_error)))

#endif
