/* Text for leaks, used by all formats. */
#ifndef LEAKS_LEAK_WORDS_H
#define LEAKS_LEAK_WORDS_H

#include "leaks/leaks.h"
#include "waits/wait_words.h"

/* "main.ask (main.go:18)"; the main goroutine has no creator. */
void leak_words_add_creator(struct strbuf *sb, const struct leak_group *group);

/* "channel (send)", "select", "nil channel", "mutex". */
void leak_words_add_wait(struct strbuf *sb, const struct leak_group *group);

#endif
