/* The options of all verbs that trace. */
#ifndef CLI_TRACING_OPTIONS_H
#define CLI_TRACING_OPTIONS_H

#include <argp.h>
#include <stdbool.h>

struct tracing_options {
	double max_pause; /* seconds; 0: any */
	double cpu_hz;    /* rate of CPU samples; 0: none */
	bool no_names;    /* of requests */
};

/* A child of a verb's argp; its input is the struct. */
extern const struct argp tracing_options_argp;

#endif
