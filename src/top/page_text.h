/* Names, numbers and times as the page shows them: UTF-8 without control characters. */
#ifndef TOP_PAGE_TEXT_H
#define TOP_PAGE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

/* At most so many characters of the text, those at its end when there are more, or those at its
 * start; what is no plain character is '?'. Gives how many. */
size_t top_add_text(struct strbuf *sb, const char *text, size_t columns, bool ascii);
size_t top_add_start(struct strbuf *sb, const char *text, size_t columns, bool ascii);
/* Likewise of a function's name: folders of its package go first, then the package, then its
 * receiver. */
size_t top_add_name(struct strbuf *sb, const char *name, size_t columns, bool ascii);
/* "350ms", "12.3s", "12m34s", "5h03m", "12d03h" */
void top_add_time(struct strbuf *sb, uint64_t ns);
/* Five characters: "0.012", " 1.25", "20.0", "12345", "1.2M"; "    -" for next to nothing. */
void top_add_number(struct strbuf *sb, double n);
/* Four characters: "0.4%", " 64%"; "   -" for next to nothing. */
void top_add_percent(struct strbuf *sb, double part, double whole);
/* A character as high as this part of 1. */
void top_add_bar(struct strbuf *sb, double part, bool ascii);

#endif
