#include "top/top_view.h"

#include <stdio.h>
#include <string.h>

#include "base/array.h"

static const unsigned int windows[] = {1, 10, 60};

void top_view_init(struct top_view *v, const char *file)
{
	*v = (struct top_view){.window = 10, .file = file};
}

enum top_column top_view_column(const struct top_view *v)
{
	size_t count;

	return top_columns(v->table, &count)[v->sort[v->table]];
}

void top_view_fit(struct top_view *v, const struct top_rows *rows, size_t height)
{
	if (v->selected >= rows->count)
		v->selected = rows->count ? rows->count - 1 : 0;
	if (v->scroll > v->selected)
		v->scroll = v->selected;
	if (height && v->selected >= v->scroll + height)
		v->scroll = v->selected - height + 1;
	if (height && v->scroll + height > rows->count)
		v->scroll = rows->count > height ? rows->count - height : 0;
}

static enum top_action show_table(struct top_view *v, enum top_table table)
{
	v->mode = TOP_SHOWS_TABLE;
	v->table = table;
	v->selected = v->scroll = 0;
	return TOP_RECOUNT;
}

static enum top_action sort_by_next(struct top_view *v)
{
	size_t count;

	top_columns(v->table, &count);
	v->sort[v->table] = (v->sort[v->table] + 1) % count;
	v->reverse[v->table] = false;
	return TOP_RECOUNT;
}

static enum top_action next_window(struct top_view *v)
{
	size_t i = 0;

	while (i < ARRAY_SIZE(windows) && windows[i] != v->window)
		i++;
	v->window = windows[(i + 1) % ARRAY_SIZE(windows)];
	return TOP_RECOUNT;
}

/* Opens the goroutines of a row, or a goroutine's stack. */
static enum top_action open_row(struct top_view *v, const struct top_rows *rows)
{
	if (v->selected >= rows->count)
		return TOP_NOTHING;
	if (v->table == TOP_GOROUTINES) {
		v->goid = rows->items[v->selected].goroutine.goid;
		v->text_scroll = 0;
		v->mode = TOP_SHOWS_STACK;
		return TOP_REDRAW;
	}
	snprintf(v->filter, sizeof(v->filter), "=%s",
		 intern_get(&rows->names->text, rows->items[v->selected].name));
	return show_table(v, TOP_GOROUTINES);
}

static enum top_action escape(struct top_view *v)
{
	if (!*v->filter)
		return TOP_REDRAW;
	*v->filter = '\0';
	return show_table(v, v->table);
}

static enum top_action ask(struct top_view *v, enum top_mode mode, const char *input)
{
	v->mode = mode;
	snprintf(v->input, sizeof(v->input), "%s", input);
	return TOP_REDRAW;
}

/* Moves the position; `last` is its largest value. A step beyond either end has no effect. */
static bool move(size_t *at, size_t last, size_t height, uint32_t press)
{
	size_t page = height ? height : 1;

	switch (press) {
	case TOP_PRESS_UP:
	case 'k':
		*at -= *at > 0;
		return true;
	case TOP_PRESS_DOWN:
	case 'j':
		*at += *at < last;
		return true;
	case TOP_PRESS_PAGE_UP:
		*at -= *at < page ? *at : page;
		return true;
	case TOP_PRESS_PAGE_DOWN:
		*at = last - *at < page ? last : *at + page;
		return true;
	case TOP_PRESS_HOME:
		*at = 0;
		return true;
	case TOP_PRESS_END:
		*at = last;
		return true;
	}
	return false;
}

static enum top_action press_in_table(struct top_view *v, const struct top_rows *rows,
				      size_t height, uint32_t press)
{
	if (move(&v->selected, rows->count ? rows->count - 1 : 0, height, press))
		return TOP_REDRAW;
	switch (press) {
	case '1':
	case '2':
	case '3':
	case '4':
	case '5':
		return show_table(v, press - '1');
	case TOP_PRESS_TAB:
		return show_table(v, (v->table + 1) % TOP_TABLES);
	case TOP_PRESS_BACK_TAB:
		return show_table(v, (v->table + TOP_TABLES - 1) % TOP_TABLES);
	case 's':
		return sort_by_next(v);
	case 'r':
		v->reverse[v->table] = !v->reverse[v->table];
		return TOP_RECOUNT;
	case 't':
		return next_window(v);
	case '/':
		return ask(v, TOP_ASKS_FILTER, v->filter);
	case TOP_PRESS_ENTER:
		return open_row(v, rows);
	case TOP_PRESS_ESCAPE:
		return escape(v);
	}
	return TOP_NOTHING;
}

/* Only the page knows how long the text is. */
static enum top_action press_in_text(struct top_view *v, size_t height, uint32_t press)
{
	if (move(&v->text_scroll, SIZE_MAX / 2, height, press))
		return TOP_REDRAW;
	if (press != TOP_PRESS_ESCAPE && press != TOP_PRESS_ENTER)
		return TOP_NOTHING;
	v->mode = TOP_SHOWS_TABLE;
	return TOP_REDRAW;
}

static enum top_action answer(struct top_view *v)
{
	bool is_filter = v->mode == TOP_ASKS_FILTER;

	v->mode = TOP_SHOWS_TABLE;
	if (!is_filter)
		return *v->input ? TOP_WRITE : TOP_REDRAW;
	snprintf(v->filter, sizeof(v->filter), "%s", v->input);
	return show_table(v, v->table);
}

/* Removes the last character, however many bytes it has. */
static void erase(char *text)
{
	size_t n = strlen(text);

	while (n && (text[n - 1] & 0xc0) == 0x80)
		n--;
	text[n ? n - 1 : 0] = '\0';
}

static void type(char *text, size_t size, uint32_t c)
{
	size_t n = strlen(text);
	char bytes[5] = {0};

	if (c < 0x80) {
		bytes[0] = c;
	} else if (c < 0x800) {
		bytes[0] = 0xc0 | c >> 6;
		bytes[1] = 0x80 | (c & 0x3f);
	} else if (c < 0x10000) {
		bytes[0] = 0xe0 | c >> 12;
		bytes[1] = 0x80 | (c >> 6 & 0x3f);
		bytes[2] = 0x80 | (c & 0x3f);
	} else {
		bytes[0] = 0xf0 | c >> 18;
		bytes[1] = 0x80 | (c >> 12 & 0x3f);
		bytes[2] = 0x80 | (c >> 6 & 0x3f);
		bytes[3] = 0x80 | (c & 0x3f);
	}
	if (n + strlen(bytes) < size)
		strcpy(text + n, bytes);
}

static enum top_action press_in_prompt(struct top_view *v, uint32_t press)
{
	if (press == TOP_PRESS_ENTER)
		return answer(v);
	if (press == TOP_PRESS_ESCAPE)
		v->mode = TOP_SHOWS_TABLE;
	else if (press == TOP_PRESS_ERASE)
		erase(v->input);
	else if (press == 'U' - '@')
		*v->input = '\0';
	else if (press >= ' ' && press < 0x110000 && press != 0x7f)
		type(v->input, sizeof(v->input), press);
	else
		return TOP_NOTHING;
	return TOP_REDRAW;
}

static enum top_action press_anywhere(struct top_view *v, uint32_t press)
{
	switch (press) {
	case 'q':
		return TOP_QUIT;
	case '?':
	case 'h':
		v->mode = v->mode == TOP_SHOWS_HELP ? TOP_SHOWS_TABLE : TOP_SHOWS_HELP;
		v->text_scroll = 0;
		return TOP_REDRAW;
	case ' ':
	case 'f':
		v->frozen = !v->frozen;
		return TOP_FREEZE;
	case 'w':
		return ask(v, TOP_ASKS_FILE, v->file);
	}
	return TOP_NOTHING;
}

enum top_action top_view_press(struct top_view *v, const struct top_rows *rows, size_t height,
			       uint32_t press)
{
	enum top_action action;

	*v->message = '\0';
	if (v->mode == TOP_ASKS_FILTER || v->mode == TOP_ASKS_FILE)
		return press_in_prompt(v, press);
	action = press_anywhere(v, press);
	if (action != TOP_NOTHING)
		return action;
	action = v->mode == TOP_SHOWS_TABLE ? press_in_table(v, rows, height, press)
					    : press_in_text(v, height, press);
	top_view_fit(v, rows, height);
	return action;
}
