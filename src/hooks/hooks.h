/*
 * Which probe sites of this program are patched, and which facts about the runtime the hooks need.
 * This code writes nothing. ERROR_UNSUPPORTED: unknown code.
 */
#ifndef HOOKS_HOOKS_H
#define HOOKS_HOOKS_H

#include "agent/abi.h"
#include "base/strbuf.h"
#include "golayout/golayout.h"
#include "hooks/stub.h"
#include "hooks/trampoline.h"
#include "image/image.h"
#include "target/target.h"

struct hooks {
	struct code_site sites[CODE_MAX_SITES]; /* address 0: not in this program */
	size_t site_count;
	enum stub_p kinds[HOOKS];
	/* See hooks/entry_points.h. */
	struct agent_entry_site entry_sites[AGENT_MAX_ENTRY_SITES];
	uint64_t entry_points[AGENT_MAX_ENTRY_POINTS];
	size_t entry_point_count;
	struct trampolines trampolines;
	struct strbuf left_out; /* a line for each function: why it is not among them */
};

struct error *hooks_find(struct target *t, const struct image *img, const struct golayout *lay,
			 struct hooks *ret) must_check;

/* Adds the hook of allocations, after hooks_config(). ERROR_FAILED: the program's heap profile is
 * off, so the runtime does not say what it allocates. */
struct error *hooks_add_allocations(struct target *t, const struct image *img,
				    const struct golayout *lay, struct hooks *hooks,
				    struct agent_config *config) must_check;

struct error *hooks_config(struct target *t, const struct image *img, const struct golayout *lay,
			   uint32_t depth, struct agent_config *ret) must_check;

/* Where they are, for the agent. */
void hooks_sites(const struct hooks *hooks, struct agent_sites *ret);

#endif
