/*
 * Which places of this program are patched, and what the hooks there have to know of the runtime.
 * Nothing is written here. ERROR_UNSUPPORTED when the code is not what gospect knows.
 */
#ifndef HOOKS_HOOKS_H
#define HOOKS_HOOKS_H

#include "agent/abi.h"
#include "base/strbuf.h"
#include "golayout/golayout.h"
#include "hooks/far.h"
#include "hooks/stub.h"
#include "image/image.h"
#include "target/target.h"

struct hooks {
	struct code_place places[CODE_MAX_PLACES]; /* address 0: not in this program */
	size_t place_count;
	enum stub_p kinds[HOOKS];
	/* Of hooks/roots.h. */
	struct agent_root_place root_places[AGENT_MAX_ROOT_PLACES];
	uint64_t root_entries[AGENT_MAX_ROOTS];
	size_t root_count;
	struct far far;
	struct strbuf left_out; /* a line for each function: why it is not among them */
};

struct error *hooks_find(struct target *t, const struct image *img, const struct golayout *lay,
			 struct hooks *ret) must_check;

struct error *hooks_config(struct target *t, const struct image *img, const struct golayout *lay,
			   uint32_t depth, struct agent_config *ret) must_check;

/* Where they are, for the agent. */
void hooks_places(const struct hooks *hooks, struct agent_places *ret);

#endif
