/* What the agent has copied of a request, as text of a trace. */
#ifndef COLLECT_REQUEST_FACTS_H
#define COLLECT_REQUEST_FACTS_H

#include "base/strbuf.h"
#include "collect/drain.h"

/* Adds the parts of a RECORD_REQUEST as a line of gotrace/label_text.h; nothing when there are
 * none. The bytes may be the target's own. */
void request_facts_add(struct strbuf *sb, const struct drain_text *text);

/* Likewise, one label: "route", "status". */
void request_fact_add(struct strbuf *sb, const char *key, const void *value, size_t length);

#endif
