/* The lines of a table: the columns that fit, with headings and cells. */
#ifndef TOP_TABLE_PAGE_H
#define TOP_TABLE_PAGE_H

#include "top/rows.h"
#include "top/series.h"
#include "top/top_view.h"

struct top_table_picture {
	const struct top_view *view;
	const struct top_rows *rows;
	const struct top_series *series;
	struct top_names *names;
	size_t width;
	bool ascii;
};

void top_table_heading(struct strbuf *sb, const struct top_table_picture *p);
void top_table_row(struct strbuf *sb, const struct top_table_picture *p, size_t row);
/* The wait reason of a goroutine, or its state. */
const char *top_state_text(struct top_names *names, const struct top_key *key);

#endif
