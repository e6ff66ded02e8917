/* The names of gRPC's status codes, as grpc-go writes them. */
#ifndef GOTRACE_GRPC_CODE_H
#define GOTRACE_GRPC_CODE_H

#include <stdbool.h>
#include <stdint.h>

enum { GRPC_CODE_NAME = 32 };

/* "NotFound"; "Code(17)" of one that has no name. */
void grpc_code_name(uint32_t code, char ret[GRPC_CODE_NAME]);
/* False: it is no code's name. */
bool grpc_code_find(const char *name, uint32_t *ret);

#endif
