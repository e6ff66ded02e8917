#include "cli/duration.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* The units of time.ParseDuration (Go 1.27, time/format.go); "ms" stands before "m". */
static const struct {
	const char *name;
	double seconds;
} units[] = {{"ns", 1e-9}, {"us", 1e-6}, {"\xc2\xb5s", 1e-6}, {"\xce\xbcs", 1e-6},
	     {"ms", 1e-3}, {"s", 1},     {"m", 60},           {"h", 3600}};

/* Parses one number with its unit. Returns the text behind it, or NULL. */
static const char *parse_part(const char *text, double *sum)
{
	size_t digits = strspn(text, "0123456789.");
	char number[32], *end;
	double value;

	if (!digits || digits >= sizeof(number))
		return NULL;
	memcpy(number, text, digits);
	number[digits] = 0;
	value = strtod(number, &end);
	if (end == number || *end)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		size_t n = strlen(units[i].name);

		if (strncmp(text + digits, units[i].name, n))
			continue;
		*sum += value * units[i].seconds;
		return text + digits + n;
	}
	return NULL;
}

bool parse_duration(const char *text, double *ret)
{
	double sum = 0;

	if (parse_number(text, 0, HUGE_VAL, ret))
		return isfinite(*ret);
	if (!*text)
		return false;
	while (text && *text)
		text = parse_part(text, &sum);
	if (!text)
		return false;
	*ret = sum;
	return true;
}

error_t parse_duration_option(const char *arg, double least, double most, double *ret,
			      struct argp_state *state)
{
	double value;

	if (!parse_duration(arg, &value))
		return wrong_option(state, "invalid duration '%s'; use seconds, or 10s, 2m, 1h",
				    arg);
	if (!(value >= least && value <= most))
		return wrong_option(state, "invalid duration '%s' (%g s to %g s)", arg, least,
				    most);
	*ret = value;
	return 0;
}
