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
 * Updates shared->readable: the program's own mappings, and Go's heap, which is where its
 * goroutines (type g) are. The runtime never gives its addresses back. Existing entries stay,
 * because the agent may be reading them.
 */
struct error *readable_update(struct target *t, const struct image *img, const struct golayout *lay,
			      struct agent_shared *shared) must_check;

/*
 * Puts into shared->heap_ranges where the runtime has the ranges of its heap. Many programs have
 * neither a symbol nor DWARF for it. But it is recognisable: among the program's variables, a slice
 * of ranges whose sizes add up to the word behind it and that hold all goroutines
 * (runtime/mranges.go: addrRanges, Go 1.17 to 1.27). Once, before the agent runs; its array, when
 * the runtime takes another, by readable_update().
 */
struct error *readable_find_heap(struct target *t, const struct image *img,
				 const struct golayout *lay,
				 struct agent_shared *shared) must_check;

#endif
