/* Memory of the target that the agent may read, as it stays there for as long as the process does.
 */
#ifndef HOOKS_READABLE_H
#define HOOKS_READABLE_H

#include "agent/abi.h"
#include "base/error.h"
#include "golayout/golayout.h"
#include "image/image.h"
#include "target/target.h"

/*
 * Puts into shared->readable what is there now: the program's own mappings, and Go's heap, which is
 * where its goroutines (type g) are; the runtime never gives its addresses back. What is in it
 * already stays, as the agent may just be looking.
 */
struct error *readable_update(struct target *t, const struct image *img, const struct golayout *lay,
			      struct agent_shared *shared) must_check;

/*
 * Puts into shared->heap_ranges where the runtime has the ranges of its heap. There is no symbol
 * for it in many programs, nor does DWARF tell it there; but nothing else looks like it: among the
 * program's variables, a slice of ranges whose sizes add up to the word behind it and that hold all
 * goroutines (runtime/mranges.go: addrRanges, Go 1.17 to 1.27). Once, before the agent runs; its
 * array, when the runtime takes another, by readable_update().
 */
struct error *readable_find_heap(struct target *t, const struct image *img,
				 const struct golayout *lay,
				 struct agent_shared *shared) must_check;

#endif
