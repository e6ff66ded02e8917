/*
 * Names for the model, which knows only numbers. It is an interface, so that tests need no program.
 * A name is a number in `text`.
 */
#ifndef TOP_NAMES_H
#define TOP_NAMES_H

#include "base/error.h"
#include "base/intern.h"
#include "base/strbuf.h"
#include "top/request_rate.h"
#include "top/top_model.h"

/* The most labels of a set that are shown. */
#define TOP_MAX_LABELS 32

struct top_stack_names {
	const uint32_t *functions; /* innermost first, each once; valid until the next call */
	uint32_t count;
	uint32_t place; /* the innermost that is not of Go's runtime or similar */
	enum request_place request;
};

struct top_names {
	struct intern text;
	struct error *(*stack)(struct top_names *names, uint32_t stack,
			       struct top_stack_names *ret)must_check;
	/* The function that has the go statement; INTERN_FAILED: no memory. */
	uint32_t (*creator)(struct top_names *names, uint32_t creator);
	/* "key=value" of each label, at most TOP_MAX_LABELS; *ret_count is how many. */
	struct error *(*labels)(struct top_names *names, uint32_t labels, uint32_t *ret,
				uint32_t *ret_count)must_check;
	/* Whether it waits for work, as far as is known. */
	bool (*awaits_work)(struct top_names *names, const struct top_key *key);
	const char *(*wait_reason)(struct top_names *names, uint8_t reason);
	/* The stack as text, two lines a frame. */
	void (*describe)(struct top_names *names, uint32_t stack, struct strbuf *ret);
};

#endif
