/*
 * Which places of this program are patched, and what the hooks there have to know of the runtime.
 * Nothing is written here. ERROR_UNSUPPORTED when the code is not what gospect knows.
 */
#ifndef INJECT_HOOKS_H
#define INJECT_HOOKS_H

#include "agent/abi.h"
#include "golayout/golayout.h"
#include "image/image.h"
#include "inject/stub.h"
#include "target/target.h"

struct hooks {
	struct code_place places[HOOKS]; /* address 0: not in this program */
	enum stub_p kinds[HOOKS];
};

struct error *hooks_find(struct target *t, const struct image *img, const struct golayout *lay,
			 struct hooks *ret) must_check;

struct error *hooks_config(struct target *t, const struct image *img, const struct golayout *lay,
			   const struct hooks *hooks, uint32_t depth,
			   struct agent_config *ret) must_check;

#endif
