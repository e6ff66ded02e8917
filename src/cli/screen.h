/* The terminal of `top`: the only file that knows ncurses. One at a time. */
#ifndef CLI_SCREEN_H
#define CLI_SCREEN_H

#include <gospect/top.h>
#include <stdbool.h>

#include "base/error.h"

enum {
	SCREEN_NO_PRESS = 0,
	SCREEN_RESIZED = 0x120000, /* beyond enum gospect_top_key */
	SCREEN_GONE,               /* the terminal is gone */
};

/* Reads all there is to read about the terminal, which standard input and output must be, and about
 * the locale, which is set: afterwards privilege can be given up. The terminal stays as it is. */
struct error *screen_prepare(void) must_check;
/* Takes over the terminal. */
void screen_open(void);
/* Leaves the terminal as it was. */
void screen_close(void);
void screen_size(size_t *ret_width, size_t *ret_height);
/* It shows nothing but ASCII. */
bool screen_is_ascii(void);
void screen_show(const struct gospect_top_page *page);
/* The next key, a character or one of enum gospect_top_key or of those above, waited for so long.
 */
uint32_t screen_press(int milliseconds);

#endif
