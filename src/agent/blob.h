/* The agent's machine code, fit for any address: agent.c, compiled and linked by itself. */
#ifndef AGENT_BLOB_H
#define AGENT_BLOB_H

#include <stddef.h>

extern const unsigned char agent_blob[];
extern const size_t agent_blob_size;
/* Where agent_status() and so on begin: agent/entry.h. */
extern const size_t agent_blob_status;
extern const size_t agent_blob_change;
extern const size_t agent_blob_syscall;
extern const size_t agent_blob_syscall_exit;

#endif
