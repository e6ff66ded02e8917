/*
 * The screen's content as lines of text, each at most as wide as the screen, for a terminal of any
 * size. All text is UTF-8 without control characters, whatever names the target has.
 */
#ifndef TOP_PAGE_H
#define TOP_PAGE_H

#include "top/request_rate.h"
#include "top/series.h"
#include "top/top_view.h"

enum top_style {
	TOP_STYLE_PLAIN,
	TOP_STYLE_BAR, /* headings */
	TOP_STYLE_SELECTED,
	TOP_STYLE_DIM,
	TOP_STYLE_ALERT,
	TOP_STYLE_RUNNING, /* a state's graph: this one and the next three */
	TOP_STYLE_STRONG = TOP_STYLE_RUNNING + TOP_STATES, /* what stands out */
};

struct top_line {
	struct strbuf text;
	enum top_style style;
};

struct top_page {
	struct top_line *lines;
	size_t count;
	size_t capacity;
	size_t last_scroll; /* for a text: the largest scroll position */
};

struct top_picture {
	const struct top_model *model;
	const struct top_view *view;
	const struct top_rows *rows;
	const struct top_series *series; /* of the visible rows */
	struct top_names *names;
	const char *title;
	const char *why; /* what stands out, as a sentence; NULL: not known yet */
	const struct request_numbers *requests; /* NULL: there are none */
	const char *alert; /* stays in the last line: for example that the target ended; or NULL */
	const struct top_goroutine
		*goroutine; /* the goroutine whose stack is shown; NULL: it has ended */
	size_t width;
	size_t height;
	bool ascii; /* the terminal shows ASCII only */
};

/* How many rows of a table, or lines of a stack, fit; with or without a line of requests. */
size_t top_page_height(size_t height, bool requests);
struct error *top_page_make(struct top_page *page, const struct top_picture *picture) must_check;
void top_page_release(struct top_page *page);

#endif
