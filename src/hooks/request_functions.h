/*
 * The functions of servers in which the agent learns the method, path, route or status of a
 * request. Each takes its arguments in the registers of Go's ABIInternal (from Go 1.17 on).
 */
#ifndef HOOKS_REQUEST_FUNCTIONS_H
#define HOOKS_REQUEST_FUNCTIONS_H

#include "agent/abi.h"
#include "golayout/golayout.h"
#include "image/image.h"
#include "image/type_data.h"

struct request_function {
	const char *name;                /* without the path of a vendor directory */
	int first, last;                 /* Go 1.N */
	uint8_t kind;                    /* enum agent_entry_kind */
	uint8_t request;                 /* enum agent_request_place */
	const char *gives;               /* what a request lacks without it, in messages */
	const struct route_field *field; /* of ENTRY_ROUTE_FIELD */
};

/* Where ENTRY_ROUTE_FIELD has its string: AGENT_FIELD(). False: the program does not say. */
bool request_function_field(const struct request_function *of, const struct type_data *types,
			    uint32_t *ret);

/* NULL: nothing. */
const struct request_function *request_function_of(const char *name, int minor);

/* Where the fields are of the structures that the agent reads. What the program does not have, or
 * does not describe, is 0. */
struct error *request_layout(struct target *t, const struct image *img, const struct golayout *lay,
			     struct agent_http *ret) must_check;

#endif
