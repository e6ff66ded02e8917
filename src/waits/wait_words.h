/* Text for objects and waits, used by all formats. */
#ifndef WAITS_WAIT_WORDS_H
#define WAITS_WAIT_WORDS_H

#include "base/strbuf.h"
#include "waits/wait_graph.h"

/* "mutex 0xc0000140a8 (main.mu)", "the nil channel", "timer". */
void words_add_object(struct strbuf *sb, const struct wait_object *o);

/* "locked, starving", "0 of 4 elements, closed"; empty when nothing is known. */
void words_add_state(struct strbuf *sb, const struct wait_graph *w, const struct wait_object *o);

/* "main.worker (worker.go:41)". */
void words_add_place(struct strbuf *sb, const struct wait_place *p);

/* "3 minutes", as the runtime prints it from a minute on; "12 s". */
void words_add_age(struct strbuf *sb, uint64_t ns);

/* How long it has waited; 0: not known. */
uint64_t wait_age(const struct wait_graph *w, const struct wait_goroutine *g);

#endif
