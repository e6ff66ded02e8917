#include "triggers/condition.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"

enum unit { NO_LIMIT, TIME, COUNT, BYTES };
enum { OF_TRACE = 1, OF_LOOKS = 2, OF_BOTH = 3 };

static const struct {
	const char *word;
	enum unit unit;
	int of;             /* what sees it */
	bool may_have_name; /* /REGEX/ */
	bool is_name;       /* all the rest is a REGEX */
	bool may_be_percent;
} kinds[] = {
	[CONDITION_REQUEST] = {"request", TIME, OF_TRACE, .may_have_name = true},
	[CONDITION_RUNNABLE] = {"runnable", TIME, OF_BOTH},
	[CONDITION_LOCK] = {"lock", TIME, OF_BOTH},
	[CONDITION_STOP] = {"stop", TIME, OF_TRACE},
	[CONDITION_GOROUTINES] = {"goroutines", COUNT, OF_BOTH},
	[CONDITION_HEAP] = {"heap", BYTES, OF_BOTH},
	[CONDITION_CALL] = {"call", NO_LIMIT, OF_TRACE, .is_name = true},
	[CONDITION_PANIC] = {"panic", NO_LIMIT, OF_TRACE},
	[CONDITION_RSS] = {"rss", BYTES, OF_BOTH, .may_be_percent = true},
	[CONDITION_GROWTH] = {"growth", COUNT, OF_LOOKS},
	[CONDITION_WAIT] = {"wait", TIME, OF_LOOKS, .may_have_name = true},
};

static const struct {
	const char *name;
	enum unit unit;
	double factor;
} units[] = {
	{"ns", TIME, 1},        {"us", TIME, 1e3}, {"ms", TIME, 1e6},      {"s", TIME, 1e9},
	{"m", TIME, 60e9},      {"", COUNT, 1},    {"KB", BYTES, 1 << 10}, {"MB", BYTES, 1 << 20},
	{"GB", BYTES, 1 << 30}, {"", BYTES, 1},
};

/* As much as is in 2^63: no sum overflows. */
#define MOST 9e18

static const char *after_spaces(const char *text)
{
	return text + strspn(text, " \t");
}

static bool parse_limit(const char *text, enum unit unit, uint64_t *ret)
{
	char *end;
	double value = strtod(text, &end);

	if (!isdigit((unsigned char)*text))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		double all = value * units[i].factor;

		if (units[i].unit != unit || strcmp(end, units[i].name))
			continue;
		if (!(all <= MOST))
			return false;
		*ret = all;
		return true;
	}
	return false;
}

static struct error *must_check take_name(struct condition *c, const char *text, size_t length)
{
	c->pattern = strndup(text, length);
	if (!c->pattern)
		return &error_no_memory;
	if (!length || regcomp(&c->name, c->pattern, REG_EXTENDED | REG_NOSUB))
		return error_format(ERROR_USAGE, "invalid regular expression '%s'", c->pattern);
	c->has_name = true;
	return NULL;
}

/* The /REGEX/ that may stand here. NULL in *rest: it has no end. */
static struct error *must_check parse_name(struct condition *c, const char **rest)
{
	const char *end = strrchr(*rest + 1, '/');
	struct error *err;

	if (!end) {
		*rest = NULL;
		return NULL;
	}
	err = take_name(c, *rest + 1, end - *rest - 1);
	*rest = after_spaces(end + 1);
	return err;
}

/* "80%" */
static bool parse_percent(const char *text, uint64_t *ret)
{
	char *end;
	double value = strtod(text, &end);

	if (!isdigit((unsigned char)*text) || strcmp(end, "%") || !(value > 0 && value <= 1000))
		return false;
	*ret = value;
	return true;
}

static const char *example(const struct condition *c, enum unit unit)
{
	if (kinds[c->kind].may_be_percent)
		return "80%";
	return unit == TIME ? "500ms" : unit == BYTES ? "1GB" : "10000";
}

#define ROUTE " route "

/* Cuts " route REGEX" off the end. */
static struct error *must_check take_route(struct condition *c, char *rest)
{
	char *route = c->kind == CONDITION_REQUEST ? strstr(rest, ROUTE) : NULL;

	if (!route)
		return NULL;
	*route = '\0';
	route += strlen(ROUTE);
	route += strspn(route, " \t");
	if (!*route || regcomp(&c->route, route, REG_EXTENDED | REG_NOSUB))
		return error_format(ERROR_USAGE, "invalid regular expression '%s'", route);
	c->has_route = true;
	return NULL;
}

static struct error *must_check parse_limited(struct condition *c, const char *text,
					      const char *rest)
{
	enum unit unit = kinds[c->kind].unit;
	struct error *err = NULL;

	if (kinds[c->kind].is_name)
		return take_name(c, rest, strlen(rest));
	if (kinds[c->kind].may_have_name && *rest == '/')
		err = parse_name(c, &rest);
	if (err)
		return err;
	if (unit == NO_LIMIT && !*rest)
		return NULL;
	if (unit != NO_LIMIT && rest && *rest == '>' &&
	    parse_limit(after_spaces(rest + 1), unit, &c->limit))
		return NULL;
	c->is_percent = kinds[c->kind].may_be_percent && rest && *rest == '>' &&
			parse_percent(after_spaces(rest + 1), &c->limit);
	if (c->is_percent)
		return NULL;
	if (unit == NO_LIMIT)
		return error_format(ERROR_USAGE, "invalid condition '%s': use --when %s", text,
				    kinds[c->kind].word);
	return error_format(ERROR_USAGE, "invalid condition '%s': use --when '%s > %s'", text,
			    kinds[c->kind].word, example(c, unit));
}

static struct error *must_check parse_rest(struct condition *c, const char *text, const char *rest)
{
	_cleanup_free_ char *copy = strdup(rest);
	struct error *err = copy ? take_route(c, copy) : &error_no_memory;

	return err ? err : parse_limited(c, text, copy);
}

struct error *condition_parse(const char *text, struct condition *ret)
{
	size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyz");
	struct condition c = {0};
	struct error *err;

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (strlen(kinds[i].word) != length || strncmp(text, kinds[i].word, length))
			continue;
		c.kind = i;
		err = parse_rest(&c, text, after_spaces(text + length));
		if (err)
			condition_release(&c);
		else
			*ret = c;
		return err;
	}
	return error_format(ERROR_USAGE,
			    "unknown condition '%s': use request, runnable, lock, stop, "
			    "goroutines, growth, heap, rss, wait, call or panic, as in --when "
			    "'lock > 500ms'",
			    text);
}

void condition_release(struct condition *c)
{
	if (c->has_name)
		regfree(&c->name);
	if (c->has_route)
		regfree(&c->route);
	free(c->pattern);
	*c = (struct condition){0};
}

const char *condition_word(const struct condition *c)
{
	return kinds[c->kind].word;
}

bool condition_is_of_trace(const struct condition *c)
{
	return kinds[c->kind].of & OF_TRACE;
}

bool condition_is_of_looks(const struct condition *c)
{
	return kinds[c->kind].of & OF_LOOKS;
}

double condition_rss_level(const struct condition *c, uint64_t rss, uint64_t limit)
{
	if (!c->is_percent)
		return rss;
	return limit ? 100.0 * rss / limit : 0;
}

void condition_rss_text(uint64_t rss, uint64_t limit, char ret[static CONDITION_TEXT])
{
	int n = snprintf(ret, CONDITION_TEXT, "the resident memory is %.3g MB", rss / 1048576.0);

	if (limit)
		snprintf(ret + n, CONDITION_TEXT - n, ", %.3g %% of the control group's limit",
			 100.0 * rss / limit);
}

bool condition_is_of_time(const struct condition *c)
{
	return kinds[c->kind].unit == TIME;
}
