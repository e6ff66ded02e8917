/* The last hour of a process as a page, and as a small picture. */
#ifndef SERVE_SERVE_HOUR_PAGE_H
#define SERVE_SERVE_HOUR_PAGE_H

#include "serve/serve_history.h"

/* Text of /hour.js, the script of the page. */
extern const char serve_hour_script[];

void serve_hour_page(const struct serve_past *p, struct strbuf *page);
void serve_hour_picture(const struct serve_past *p, struct strbuf *picture);

#endif
