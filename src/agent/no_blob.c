/* There is no agent for this architecture yet: nothing can be traced. */
#include "agent/blob.h"

const unsigned char agent_blob[] = {0};
const size_t agent_blob_size = 0;
const size_t agent_blob_status = 0;
const size_t agent_blob_change = 0;
const size_t agent_blob_syscall = 0;
const size_t agent_blob_syscall_exit = 0;
