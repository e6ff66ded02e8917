/* The target's memory at the probe sites that are or will be patched. It is read just before the
 * threads are stopped, not while they are. */
#ifndef INJECT_SITES_H
#define INJECT_SITES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "inject/code_page.h"
#include "target/target.h"

struct sites {
	bool known[CODE_MAX_SITES]; /* in use, and could be read */
	uint8_t bytes[CODE_MAX_SITES][SITE_MAX_BYTES];
};

/* For each probe site in use, as many bytes as a jump changes or the instruction has. ERROR_GONE,
 * ERROR_DENIED. */
struct error *sites_read(struct target *t, const struct code_head *head,
			 struct sites *ret) must_check;

/* The jump is there that leads to the agent. */
bool sites_is_jump(const struct sites *p, const struct code_head *head, unsigned int i);

/* At each the instruction is there that was found before. ERROR_GONE, ERROR_DENIED. */
struct error *sites_check(struct target *t, const struct code_head *head) must_check;

#endif
