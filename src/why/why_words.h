/* Numbers and names in the words of findings. */
#ifndef WHY_WHY_WORDS_H
#define WHY_WHY_WORDS_H

#include <stdint.h>

#include "base/strbuf.h"

/* "0.85", "2.7", "12", "10,231" */
void why_add_amount(struct strbuf *sb, double amount);
/* "93 %"; `part` is of 1. */
void why_add_share(struct strbuf *sb, double part);
/* "0.4 ms", "82 ms", "1.2 s", "3 minutes" */
void why_add_seconds(struct strbuf *sb, double seconds);
/* "21 MB" */
void why_add_bytes(struct strbuf *sb, double bytes);
/* "server.(*Server).Run" for "example.com/team/server.(*Server).Run" */
void why_add_function(struct strbuf *sb, const char *function);
/* "1 goroutine", "2.7 goroutines" */
void why_add_goroutines(struct strbuf *sb, double count);

#endif
