/*
 * From numbers to findings: what is wrong with a program, in plain sentences, with the evidence
 * and the next command. The rules are in a table (why_rules.c), each with its threshold and the
 * reason for it. They know no process, so tests give them made-up numbers.
 */
#ifndef WHY_WHY_RULES_H
#define WHY_WHY_RULES_H

#include <stdio.h>

#include "base/error.h"
#include "why/why_numbers.h"

enum why_severity {
	WHY_CRITICAL, /* goroutines can never go on, or the program is about to be killed */
	WHY_SERIOUS,  /* it determines how fast the program is, or grows without an end */
	WHY_MINOR,    /* a suspicion, or a cost that may be intended */
};

/* "critical", "serious", "minor" */
const char *why_severity_name(enum why_severity severity);

struct why_finding {
	const char *kind; /* "deadlock"; a constant */
	enum why_severity severity;
	char *sentence;
	char *evidence;
	char *next; /* a command */
};

struct why_findings {
	struct why_finding *items; /* the gravest first */
	size_t count;
	size_t capacity;
	char **unknown; /* sentences: what could not be measured, and why */
	size_t unknown_count;
	size_t unknown_capacity;
};

struct error *why_find(const struct why_numbers *n, struct why_findings *ret) must_check;
void why_findings_release(struct why_findings *f);

#define _cleanup_why_findings_ __attribute__((cleanup(why_findings_release)))

/* {"findings": [...], "unknown": [...]} */
void why_write_json(const struct why_findings *f, FILE *out);

#endif
