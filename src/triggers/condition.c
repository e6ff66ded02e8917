#include "triggers/condition.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

enum unit { NO_LIMIT, TIME, COUNT, BYTES };

static const struct {
	const char *word;
	enum unit unit;
	bool may_have_name; /* /REGEX/ */
	bool is_name;       /* all the rest is a REGEX */
} kinds[] = {
	[CONDITION_REQUEST] = {"request", TIME, true},
	[CONDITION_RUNNABLE] = {"runnable", TIME},
	[CONDITION_LOCK] = {"lock", TIME},
	[CONDITION_STOP] = {"stop", TIME},
	[CONDITION_GOROUTINES] = {"goroutines", COUNT},
	[CONDITION_HEAP] = {"heap", BYTES},
	[CONDITION_CALL] = {"call", NO_LIMIT, false, true},
	[CONDITION_PANIC] = {"panic", NO_LIMIT},
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

static const char *example(enum unit unit)
{
	return unit == TIME ? "500ms" : unit == BYTES ? "1GB" : "10000";
}

static struct error *must_check parse_rest(struct condition *c, const char *text, const char *rest)
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
	if (unit == NO_LIMIT)
		return error_format(ERROR_USAGE, "invalid condition '%s': use --when %s", text,
				    kinds[c->kind].word);
	return error_format(ERROR_USAGE, "invalid condition '%s': use --when '%s > %s'", text,
			    kinds[c->kind].word, example(unit));
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
			    "goroutines, heap, call or panic, as in --when 'request > 500ms'",
			    text);
}

void condition_release(struct condition *c)
{
	if (c->has_name)
		regfree(&c->name);
	free(c->pattern);
	*c = (struct condition){0};
}

const char *condition_word(const struct condition *c)
{
	return kinds[c->kind].word;
}

bool condition_is_of_time(const struct condition *c)
{
	return kinds[c->kind].unit == TIME;
}
