/* Names, numbers and times as the page shows them: UTF-8 without control characters. */
#ifndef TOP_PAGE_TEXT_H
#define TOP_PAGE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

/* Adds at most `columns` characters: the last ones, or with top_add_start() the first ones.
 * Unprintable characters become '?'. Returns how many were added. */
size_t top_add_text(struct strbuf *sb, const char *text, size_t columns, bool ascii);
size_t top_add_start(struct strbuf *sb, const char *text, size_t columns, bool ascii);
/* Likewise for a function's name: it loses directories first, then its package, then its
 * receiver. */
size_t top_add_name(struct strbuf *sb, const char *name, size_t columns, bool ascii);
/* "350ms", "12.3s", "12m34s", "5h03m", "12d03h" */
void top_add_time(struct strbuf *sb, uint64_t ns);
/* Adds five characters: "0.012", " 1.25", "20.0", "12345", "1.2M"; "    -" for almost nothing. */
void top_add_number(struct strbuf *sb, double n);
/* Adds four characters: "0.4%", " 64%"; "   -" for almost nothing. */
void top_add_percent(struct strbuf *sb, double part, double whole);
/* Adds a bar character of this height, from 0 to 1. */
void top_add_bar(struct strbuf *sb, double part, bool ascii);

#endif
