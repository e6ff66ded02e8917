/* The state of the view, and the effect of keys on it. It knows no terminal. */
#ifndef TOP_TOP_VIEW_H
#define TOP_TOP_VIEW_H

#include "top/rows.h"

enum top_mode {
	TOP_SHOWS_TABLE,
	TOP_SHOWS_STACK,
	TOP_SHOWS_HELP,
	TOP_ASKS_FILTER,
	TOP_ASKS_FILE,
};

/* Keys that are not characters. */
enum top_press {
	TOP_PRESS_UP = 0x110000,
	TOP_PRESS_DOWN,
	TOP_PRESS_PAGE_UP,
	TOP_PRESS_PAGE_DOWN,
	TOP_PRESS_HOME,
	TOP_PRESS_END,
	TOP_PRESS_ENTER,
	TOP_PRESS_ESCAPE,
	TOP_PRESS_ERASE,
	TOP_PRESS_TAB,
	TOP_PRESS_BACK_TAB,
};

enum top_action {
	TOP_NOTHING,
	TOP_REDRAW,  /* the same rows, drawn differently */
	TOP_RECOUNT, /* other rows */
	TOP_FREEZE,  /* freezes the view or resumes it, by view.frozen */
	TOP_WRITE,   /* writes a profile into view.input */
	TOP_QUIT,
};

struct top_view {
	enum top_mode mode;
	enum top_table table;
	size_t sort[TOP_TABLES]; /* index in top_columns() */
	bool reverse[TOP_TABLES];
	size_t selected; /* row */
	size_t scroll;   /* the first visible row */
	char filter[1024];
	unsigned int window; /* seconds */
	bool frozen;
	uint64_t goid;      /* the goroutine whose stack is shown */
	size_t text_scroll; /* at most page.last_scroll; the owner ensures that */
	char input[1024];   /* the user's input */
	const char *file;   /* the file name that is offered for a profile */
	char message[256];
};

/* `file` stays the caller's. */
void top_view_init(struct top_view *v, const char *file);
enum top_column top_view_column(const struct top_view *v);
/* `height`: the number of visible rows. */
enum top_action top_view_press(struct top_view *v, const struct top_rows *rows, size_t height,
			       uint32_t press);
/* Keeps the selected row among the rows, and on the screen. */
void top_view_fit(struct top_view *v, const struct top_rows *rows, size_t height);

#endif
