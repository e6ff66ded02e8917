/* A live view of a Go program, for a screen of text: what stands out, requests, goroutines by
 * state, the hottest functions, wait reasons, creators and labels. */
#ifndef GOSPECT_TOP_H
#define GOSPECT_TOP_H

#include <gospect/profile.h>

GOSPECT_BEGIN

enum gospect_top_flags {
	GOSPECT_TOP_SYSTEM = 1, /* the runtime's own goroutines too */
	GOSPECT_TOP_ASCII = 2,  /* the screen shows only ASCII */
};

struct gospect_top_options {
	size_t size; /* of this structure */
	/* Percent of one CPU that the view may use; 100: no limit; 0: 1. */
	double budget;
	/* Its strings must outlive the view. NULL: all goroutines. */
	const struct gospect_filter *filter;
	uint32_t flags;    /* a sum of enum gospect_top_flags */
	uint32_t reserved; /* 0 */
};

struct gospect_top;

/* Creates a view of this target. gospect_top_step() looks at the target. Destroy the view before
 * the target is closed. */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_top_create(struct gospect_target *target, const struct gospect_top_options *options,
		   struct gospect_top **ret);

/* Destroys the view. Remarks of the target say what the view left out because of its limits. Takes
 * NULL as well. */
GOSPECT_API void gospect_top_destroy(struct gospect_top *top);

enum gospect_top_state {
	GOSPECT_TOP_NEW_PAGE = 1, /* the page shows something else now: gospect_top_page() */
	/* The view is frozen, or the target has ended: the call did not wait for a tick. The caller
	 * waits before the next call. */
	GOSPECT_TOP_RESTS = 2,
};

/*
 * Waits for the next tick, about 10 ms, and looks at the target. Call it in a loop. It makes a new
 * page each second, or less often if pages would take more than half of the budget. *ret is a sum
 * of enum gospect_top_state. The end of the target is no error: the last page stays.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *gospect_top_step(struct gospect_top *top,
								      uint32_t *ret);

/* Why the target cannot be looked at any more; NULL: it can. */
GOSPECT_API const char *gospect_top_ended(const struct gospect_top *top);

/* Keys beyond those that are characters. */
enum gospect_top_key {
	GOSPECT_TOP_KEY_UP = 0x110000,
	GOSPECT_TOP_KEY_DOWN,
	GOSPECT_TOP_KEY_PAGE_UP,
	GOSPECT_TOP_KEY_PAGE_DOWN,
	GOSPECT_TOP_KEY_HOME,
	GOSPECT_TOP_KEY_END,
	GOSPECT_TOP_KEY_ENTER,
	GOSPECT_TOP_KEY_ESCAPE,
	GOSPECT_TOP_KEY_ERASE,
	GOSPECT_TOP_KEY_TAB,
	GOSPECT_TOP_KEY_BACK_TAB,
};

enum gospect_top_action {
	GOSPECT_TOP_NOTHING = 0,
	GOSPECT_TOP_SHOW = 1,  /* the page: gospect_top_page() */
	GOSPECT_TOP_WRITE = 2, /* a profile, to the file of gospect_top_input(); then the page */
	GOSPECT_TOP_QUIT = 3,
};

/* Handles a key: a character, or one of enum gospect_top_key. gospect-top(1) has the keys. *ret is
 * the action left to the caller. */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_top_press(struct gospect_top *top, uint32_t key, enum gospect_top_action *ret);

/* The file name that the key w offers from now on; cut at 1,023 bytes. */
GOSPECT_API void gospect_top_offer_file(struct gospect_top *top, const char *path);
/* The user's input; valid until the next key. */
GOSPECT_API const char *gospect_top_input(const struct gospect_top *top);
/* A line for the user, which the next key removes. */
GOSPECT_API void gospect_top_say(struct gospect_top *top, const char *line);

/* The samples of the last minute, also after the target's end. It is symbolized. */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_top_profile(struct gospect_top *top, struct gospect_profile **ret);

enum gospect_top_style {
	GOSPECT_TOP_PLAIN = 0,
	GOSPECT_TOP_BAR = 1, /* headings */
	GOSPECT_TOP_SELECTED = 2,
	GOSPECT_TOP_DIM = 3,
	GOSPECT_TOP_ALERT = 4,
	GOSPECT_TOP_RUNNING = 5, /* graphs of the number of goroutines in a state: from here ... */
	GOSPECT_TOP_RUNNABLE = 6,
	GOSPECT_TOP_SYSCALL = 7,
	GOSPECT_TOP_WAITING = 8, /* ... to here */
	GOSPECT_TOP_STRONG = 9,  /* the sentence that says what stands out */
};

struct gospect_top_line {
	const char *text; /* UTF-8 without control characters */
	enum gospect_top_style style;
	uint32_t reserved;
};

struct gospect_top_page {
	size_t count;
	const struct gospect_top_line *const *lines; /* from the top; each fits the width */
};

/* The contents of a screen of this size, in columns and lines. *ret is valid until the next page is
 * made or the view is destroyed. */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_top_page(struct gospect_top *top, size_t width, size_t height,
		 const struct gospect_top_page **ret);

GOSPECT_END

#endif
