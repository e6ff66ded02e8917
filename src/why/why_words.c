#include "why/why_words.h"

#include <string.h>

#include "base/array.h"

static void add_integer(struct strbuf *sb, unsigned long value)
{
	if (value >= 1000) {
		add_integer(sb, value / 1000);
		strbuf_addf(sb, ",%03lu", value % 1000);
	} else {
		strbuf_addf(sb, "%lu", value);
	}
}

void why_add_amount(struct strbuf *sb, double amount)
{
	bool is_whole = amount == (double)(unsigned long)amount;

	if (amount < 9.95 && !is_whole)
		strbuf_addf(sb, "%.*f", amount < 0.995 ? 2 : 1, amount);
	else
		add_integer(sb, amount < 1e18 ? (unsigned long)(amount + 0.5) : UINT64_MAX);
}

void why_add_share(struct strbuf *sb, double part)
{
	double percent = 100 * part;
	bool nearly = percent >= 99 && percent < 99.95;

	strbuf_addf(sb, "%.*f %%", nearly || (percent < 9.95 && percent > 0) ? 1 : 0, percent);
}

void why_add_seconds(struct strbuf *sb, double s)
{
	if (s < 0.00995)
		strbuf_addf(sb, "%.1f ms", s * 1e3);
	else if (s < 0.995)
		strbuf_addf(sb, "%.0f ms", s * 1e3);
	else if (s < 120)
		strbuf_addf(sb, "%.*f s", s < 9.95 ? 1 : 0, s);
	else
		strbuf_addf(sb, "%.0f minutes", s / 60);
}

void why_add_bytes(struct strbuf *sb, double bytes)
{
	static const char *const units[] = {"bytes", "KB", "MB", "GB", "TB"};
	size_t unit = 0;

	while (bytes >= 999.5 && unit + 1 < ARRAY_SIZE(units)) {
		bytes /= 1000;
		unit++;
	}
	strbuf_addf(sb, "%.*f %s", bytes < 9.95 && unit ? 1 : 0, bytes, units[unit]);
}

void why_add_function(struct strbuf *sb, const char *function)
{
	size_t at = strcspn(function, "[");

	while (at && function[at - 1] != '/')
		at--;
	strbuf_adds(sb, *function ? function + at : "a function that is not known");
}

void why_add_goroutines(struct strbuf *sb, double count)
{
	why_add_amount(sb, count);
	strbuf_adds(sb, count == 1 ? " goroutine" : " goroutines");
}
