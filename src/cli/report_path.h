/* The critical paths of requests, in the tables and lists of `gospect report` and `offcpu`. */
#ifndef CLI_REPORT_PATH_H
#define CLI_REPORT_PATH_H

#include <gospect/requests.h>
#include <json-c/json_types.h>
#include <stdio.h>

/* What the path consists of, by place, the longest first. */
void report_print_path(const struct gospect_request *r, FILE *out);
struct json_object *report_path_json(const struct gospect_request *r);

#endif
