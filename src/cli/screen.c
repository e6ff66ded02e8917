#include "cli/screen.h"

#include <langinfo.h>
#include <limits.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#define NCURSES_WIDECHAR 1
#include <curses.h>

#include "base/array.h"
#include "base/utf8.h"
#include "cli/stop.h"
#include "cli/terminals.h"

/* term.h would define macros such as `lines` and `columns`. */
extern char *tigetstr(const char *name);

static SCREEN *screen;
static bool ascii, colours;

/* The terminal modes to restore in an abort, which must not call ncurses. */
static struct termios modes;
static const char *leave_text = "", *show_cursor = "";

/* The actions of Ctrl-Z: without the screen, and with it. */
static struct sigaction stop_before, stop_with_screen;

static void restore_terminal(void)
{
	if (write(STDOUT_FILENO, show_cursor, strlen(show_cursor)) >= 0 &&
	    write(STDOUT_FILENO, leave_text, strlen(leave_text)) >= 0)
		tcsetattr(STDIN_FILENO, TCSANOW, &modes);
}

static const char *terminal_text(const char *name)
{
	const char *text = tigetstr(name);

	return text && text != (char *)-1 ? text : "";
}

/* https://no-color.org, https://bixense.com/clicolors */
static bool are_colours_wanted(void)
{
	const char *none = getenv("NO_COLOR"), *some = getenv("CLICOLOR");

	return !(none && *none) && !(some && !strcmp(some, "0"));
}

static void choose_colours(void)
{
	static const short of_styles[] = {COLOR_GREEN, COLOR_YELLOW, COLOR_MAGENTA, COLOR_CYAN,
					  COLOR_RED};

	if (!are_colours_wanted() || !has_colors() || start_color() == ERR)
		return;
	colours = true;
	use_default_colors();
	for (size_t i = 0; i < ARRAY_SIZE(of_styles); i++)
		init_pair(i + 1, of_styles[i], -1);
}

static bool can_move_cursor(void)
{
	return *terminal_text("cup");
}

/* By the name of the locale, as setlocale() looks for it. */
static bool is_utf8_wanted(void)
{
	static const char *const variables[] = {"LC_ALL", "LC_CTYPE", "LANG"};
	const char *name = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(variables) && !(name && *name); i++)
		name = getenv(variables[i]);
	return name && (strcasestr(name, "utf-8") || strcasestr(name, "utf8"));
}

/* The C library loads the locale's tables when it writes the first character. */
static void prepare_characters(void)
{
	mbstate_t state = {0};
	char bytes[MB_LEN_MAX];
	wchar_t wide;

	/* A locale that is not installed is not UTF-8 to the C library, whatever its name says. */
	if (!setlocale(LC_CTYPE, "") && is_utf8_wanted())
		setlocale(LC_CTYPE, "C.UTF-8");
	ascii = strcmp(nl_langinfo(CODESET), "UTF-8") != 0;
	if (wcrtomb(bytes, L'x', &state) == (size_t)-1 || mbtowc(&wide, "x", 1) < 0)
		ascii = true;
}

static const struct terminal *find_built_in(const char *name)
{
	for (const struct terminal *t = terminals; t->name; t++)
		if (name && !strncmp(name, t->beginning, strlen(t->beginning)))
			return t;
	return NULL;
}

/* A machine or container without a description of this terminal gets a built-in one. */
static SCREEN *open_terminal(void)
{
	SCREEN *opened = newterm(NULL, stdout, stdin);
	const struct terminal *built_in = opened ? NULL : find_built_in(getenv("TERM"));
	const char *before = getenv("TERMINFO");
	char *kept = before ? strdup(before) : NULL;

	if (built_in) {
		setenv("TERMINFO", built_in->description, 1);
		opened = newterm(built_in->name, stdout, stdin);
		unsetenv("TERMINFO");
		if (kept)
			setenv("TERMINFO", kept, 1);
	}
	free(kept);
	return opened;
}

/* newterm() changes the terminal's modes and the handler of SIGTSTP. Both are restored until the
 * screen is shown. ncurses buffers its output until then. */
struct error *screen_prepare(void)
{
	prepare_characters();
	tcgetattr(STDIN_FILENO, &modes);
	sigaction(SIGTSTP, NULL, &stop_before);
	screen = open_terminal();
	if (screen)
		tcsetattr(STDIN_FILENO, TCSANOW, &modes);
	if (!screen || !can_move_cursor())
		return error_format(
			ERROR_FAILED,
			"unknown terminal type (TERM), or one that cannot move its cursor; use "
			"`gospect record`, which writes a file");
	leave_text = terminal_text("rmcup");
	show_cursor = terminal_text("cnorm");
	sigaction(SIGTSTP, &stop_before, &stop_with_screen);
	return NULL;
}

void screen_open(void)
{
	sigaction(SIGTSTP, &stop_with_screen, NULL);
	stop_before_death(restore_terminal);
	set_escdelay(25);
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, true);
	curs_set(0);
	choose_colours();
}

void screen_close(void)
{
	if (!screen)
		return;
	endwin();
	delscreen(screen);
	screen = NULL;
	stop_before_death(NULL);
}

void screen_size(size_t *ret_width, size_t *ret_height)
{
	int width, height;

	getmaxyx(stdscr, height, width);
	*ret_width = width;
	*ret_height = height;
}

bool screen_is_ascii(void)
{
	return ascii;
}

static attr_t attribute_of(enum gospect_top_style style)
{
	switch (style) {
	case GOSPECT_TOP_BAR:
		return A_REVERSE;
	case GOSPECT_TOP_SELECTED:
		return A_BOLD | A_REVERSE;
	case GOSPECT_TOP_DIM:
		return A_DIM;
	case GOSPECT_TOP_ALERT:
		return A_BOLD | (colours ? COLOR_PAIR(5) : 0);
	case GOSPECT_TOP_PLAIN:
		return A_NORMAL;
	case GOSPECT_TOP_STRONG:
		return A_BOLD;
	default:
		return colours ? COLOR_PAIR(style - GOSPECT_TOP_RUNNING + 1) : A_NORMAL;
	}
}

/* Some characters take two columns. Those that do not fit are left out. */
static void show_line(int y, int width, const struct gospect_top_line *line)
{
	const char *text = line->text;
	size_t left = strlen(text), n;
	int x = 0, columns;
	uint32_t c;

	move(y, 0);
	attrset(attribute_of(line->style));
	for (; left && (n = utf8_decode(text, left, &c)); text += n, left -= n) {
		wchar_t wide = c;

		columns = wcwidth(wide);
		if (columns < 0)
			wide = '?';
		x += columns < 0 ? 1 : columns;
		if (x > width)
			break;
		addnwstr(&wide, 1);
	}
	if (line->style == GOSPECT_TOP_BAR || line->style == GOSPECT_TOP_SELECTED)
		for (; x < width; x++)
			addch(' ');
	attrset(A_NORMAL);
	if (x < width)
		clrtoeol();
}

void screen_show(const struct gospect_top_page *page)
{
	int width, height;

	getmaxyx(stdscr, height, width);
	for (int y = 0; y < height; y++) {
		if ((size_t)y < page->count) {
			show_line(y, width, page->lines[y]);
		} else {
			move(y, 0);
			clrtoeol();
		}
	}
	refresh();
}

static uint32_t press_of(wint_t key, bool is_function_key)
{
	static const struct {
		wint_t key;
		uint32_t press;
	} keys[] = {{KEY_UP, GOSPECT_TOP_KEY_UP},         {KEY_DOWN, GOSPECT_TOP_KEY_DOWN},
		    {KEY_PPAGE, GOSPECT_TOP_KEY_PAGE_UP}, {KEY_NPAGE, GOSPECT_TOP_KEY_PAGE_DOWN},
		    {KEY_HOME, GOSPECT_TOP_KEY_HOME},     {KEY_END, GOSPECT_TOP_KEY_END},
		    {KEY_ENTER, GOSPECT_TOP_KEY_ENTER},   {KEY_BACKSPACE, GOSPECT_TOP_KEY_ERASE},
		    {KEY_DC, GOSPECT_TOP_KEY_ERASE},      {KEY_BTAB, GOSPECT_TOP_KEY_BACK_TAB},
		    {KEY_RESIZE, SCREEN_RESIZED}};

	for (size_t i = 0; is_function_key && i < ARRAY_SIZE(keys); i++)
		if (keys[i].key == key)
			return keys[i].press;
	return is_function_key ? SCREEN_NO_PRESS : key;
}

static uint32_t press_of_character(wint_t c)
{
	switch (c) {
	case '\r':
	case '\n':
		return GOSPECT_TOP_KEY_ENTER;
	case '\t':
		return GOSPECT_TOP_KEY_TAB;
	case 0x1b:
		return GOSPECT_TOP_KEY_ESCAPE;
	case 0x7f:
	case '\b':
		return GOSPECT_TOP_KEY_ERASE;
	default:
		return press_of(c, false);
	}
}

uint32_t screen_press(int milliseconds)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	wint_t key;

	/* A signal, such as that of a new size, ends the wait. */
	if (poll(&input, 1, milliseconds) > 0 && !(input.revents & POLLIN))
		return SCREEN_GONE;
	timeout(0);
	switch (get_wch(&key)) {
	case OK:
		return press_of_character(key);
	case KEY_CODE_YES:
		return press_of(key, true);
	default:
		return SCREEN_NO_PRESS;
	}
}
