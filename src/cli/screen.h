/* The terminal of `top`: the only file that knows ncurses. One at a time. */
#ifndef CLI_SCREEN_H
#define CLI_SCREEN_H

#include <gospect/top.h>
#include <stdbool.h>

#include "base/error.h"

enum {
	SCREEN_NO_PRESS = 0,
	SCREEN_RESIZED = 0x120000, /* above enum gospect_top_key */
	SCREEN_GONE,               /* the terminal is gone */
};

/* Sets the locale, and reads its files and those about the terminal, so that gospect can give up
 * its privilege afterwards. Standard input and output must be a terminal, which stays unchanged. */
struct error *screen_prepare(void) must_check;
/* Takes over the terminal. */
void screen_open(void);
/* Leaves the terminal as it was. */
void screen_close(void);
void screen_size(size_t *ret_width, size_t *ret_height);
/* Whether the terminal shows ASCII only. */
bool screen_is_ascii(void);
void screen_show(const struct gospect_top_page *page);
/* The next key: a character, one of enum gospect_top_key, or one of those above. Waits at most this
 * long.
 */
uint32_t screen_press(int milliseconds);

#endif
