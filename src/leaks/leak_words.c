#include "leaks/leak_words.h"

void leak_words_add_creator(struct strbuf *sb, const struct leak_group *group)
{
	if (!*group->created_by.function)
		strbuf_adds(sb, "the runtime");
	else
		words_add_place(sb, &group->created_by);
}

void leak_words_add_wait(struct strbuf *sb, const struct leak_group *group)
{
	static const char *const sides[] = {[WAIT_RECEIVE] = " (receive)",
					    [WAIT_SEND] = " (send)",
					    [WAIT_READ] = " (read)",
					    [WAIT_WRITE] = " (write)"};

	if (group->is_nil && group->kind == WAIT_CHANNEL) {
		strbuf_adds(sb, "nil channel");
		return;
	}
	if (group->is_select) {
		strbuf_adds(sb, group->is_nil ? "select without channels" : "select");
		return;
	}
	strbuf_adds(sb, wait_kind_name(group->kind));
	if (group->side != WAIT_ANY)
		strbuf_adds(sb, sides[group->side]);
}
