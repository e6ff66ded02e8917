#include <inttypes.h>

#include "base/printable.h"
#include "leaks/leak_words.h"

#define SHOWN_IDS 10

static void write_bytes(uint64_t bytes, FILE *out)
{
	static const char *const units[] = {"bytes", "KB", "MB", "GB", "TB"};
	double value = (double)bytes;
	size_t i = 0;

	while (value >= 1000 && i + 1 < sizeof(units) / sizeof(units[0])) {
		value /= 1000;
		i++;
	}
	fprintf(out, i && value < 10 ? "%.1f %s" : "%.0f %s", value, units[i]);
}

static void write_ids(const struct leaks *l, const struct leak_group *group, FILE *out)
{
	fprintf(out, "  goroutine%s", group->count == 1 ? "" : "s");
	for (size_t i = 0; i < group->count && i < SHOWN_IDS; i++)
		fprintf(out, "%s %" PRIu64, i ? "," : "",
			l->waits->goroutines[group->goroutines[i]].id);
	fputs(group->count > SHOWN_IDS ? ", ...\n" : "\n", out);
}

static void write_group(const struct leaks *l, const struct leak_group *group, FILE *out)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	strbuf_addf(&sb, "%zu goroutine%s created by ", group->count, group->count == 1 ? "" : "s");
	leak_words_add_creator(&sb, group);
	strbuf_adds(&sb, group->count == 1 ? "\n  waits for " : "\n  wait for ");
	leak_words_add_wait(&sb, group);
	strbuf_adds(&sb, " in ");
	words_add_place(&sb, &group->place);
	if (group->oldest) {
		strbuf_adds(&sb, ", the longest for ");
		words_add_age(&sb, group->oldest);
	}
	if (group->count > 1 && group->recent)
		strbuf_addf(&sb, ", %zu since less than a minute", group->recent);
	if (l->compared_ns)
		strbuf_addf(&sb, ", %+" PRId64 " in %.3g s", group->growth, l->compared_ns / 1e9);
	strbuf_addc(&sb, '\n');
	if (!sb.failed)
		fputs(sb.data, out);
	if (group->retained) {
		fputs("  retains ", out);
		write_bytes(group->retained, out);
		fputc('\n', out);
	}
	fprintf(out, "  %s: %s\n", group->is_certain ? "certain" : "suspected", group->why);
	write_ids(l, group, out);
	fputc('\n', out);
}

static void write_summary(const struct leaks *l, FILE *out)
{
	if (l->certain) {
		fprintf(out, "%zu goroutine%s leaked: nothing can wake %s any more. %s ",
			l->certain, l->certain == 1 ? " is" : "s are",
			l->certain == 1 ? "it" : "them",
			l->certain == 1 ? "It keeps" : "They keep");
		write_bytes(l->retained, out);
		fputs(".\n", out);
	} else {
		fputs("No goroutine is leaked for certain.\n", out);
	}
	if (l->suspected)
		fprintf(out, "%zu goroutine%s suspected.\n", l->suspected,
			l->suspected == 1 ? " is" : "s are");
	fputc('\n', out);
}

void leaks_write_text(const struct leaks *l, FILE *out)
{
	write_summary(l, out);
	for (size_t i = 0; i < l->group_count; i++)
		write_group(l, &l->groups[i], out);
}
