/* The descriptors and addresses that goroutines wait for, as `gospect waits` finds them. */
#ifndef DUMP_CONNECTIONS_H
#define DUMP_CONNECTIONS_H

#include "base/strbuf.h"
#include "dump/dump.h"

/* Looks at all goroutines once more. A goroutine gets its connection if it has not run since the
 * dump read it. */
struct error *connections_find(struct dump *dump, struct target *t, const struct golayout *lay,
			       const atomic_int *stop) must_check;

/* Adds ", fd 7, 10.0.0.1:80 -> 10.0.0.2:33000", for the brackets of a goroutine's header. */
void connection_add(struct strbuf *sb, const struct wait_object *connection);

#endif
