/* The process that may put an agent into the target (inject/surgeon.h), apart from gospect's own.
 */
#ifndef CLI_SURGEON_PROCESS_H
#define CLI_SURGEON_PROCESS_H

#include "cli/confine.h"

/* Adds it to what confine() starts. Where gospect cannot be confined nothing is added: then the
 * surgeon is in gospect's own process (hooks/injection.c). */
struct error *surgeon_process_add(struct confinement *c) must_check;

#endif
