/* write_made_up_profile NAME FORMAT [raw] > FILE; write_made_up_profile diff BEFORE AFTER >
 * FILE.html */
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "tests/made_up.h"

static void made_up_hundred_thousand(struct made_up *m)
{
	made_up_large(m, 100000);
}

static bool make(struct made_up *m, const char *name)
{
	static const struct {
		const char *name;
		void (*make)(struct made_up *m);
	} profiles[] = {
		{"small", made_up_small},         {"grown", made_up_grown},
		{"service", made_up_service},     {"waits", made_up_waits},
		{"hostile", made_up_hostile},     {"large", made_up_hundred_thousand},
		{"idle", made_up_idle},           {"nothing", made_up_nothing},
		{"recursive", made_up_recursive}, {"bursts", made_up_bursts},
		{"hour", made_up_hour},           {"collector", made_up_collector},
		{"crowd", made_up_crowd},
	};

	for (size_t i = 0; i < ARRAY_SIZE(profiles); i++)
		if (!strcmp(name, profiles[i].name))
			profiles[i].make(m);
	return m->profile != NULL;
}

static struct error *write_one(const char *name, const struct profile_format *format, bool raw)
{
	_cleanup_profile_symbols_ struct profile_symbols *symbols = NULL;
	_cleanup_(made_up_deinit) struct made_up m = {0};
	struct error *err = NULL;

	if (!format || !make(&m, name))
		return error_format(ERROR_USAGE, "no profile '%s', or no such format", name);
	if (raw)
		err = profile_symbolize(m.profile, NULL, &symbols);
	else
		symbols = made_up_symbolize(&m);
	return err ? err : format->write(m.profile, symbols, stdout);
}

static struct error *write_diff(const char *before, const char *after)
{
	_cleanup_profile_symbols_ struct profile_symbols *x = NULL, *y = NULL;
	_cleanup_(made_up_deinit) struct made_up a = {0}, b = {0};

	if (!make(&a, before) || !make(&b, after))
		return error_format(ERROR_USAGE, "no profile '%s' or '%s'", before, after);
	x = made_up_symbolize(&a);
	y = made_up_symbolize(&b);
	return html_write_diff(a.profile, x, b.profile, y, stdout);
}

int main(int argc, char **argv)
{
	_cleanup_error_ struct error *err = NULL;

	if (argc < 3) {
		fprintf(stderr, "write_made_up_profile NAME FORMAT [raw]\n"
				"write_made_up_profile diff BEFORE AFTER\n");
		return 2;
	}
	if (!strcmp(argv[1], "diff") && argc > 3)
		err = write_diff(argv[2], argv[3]);
	else
		err = write_one(argv[1], profile_format_named(argv[2]), argc > 3);
	if (err)
		fprintf(stderr, "%s\n", err->message);
	return err || fflush(stdout) ? 1 : 0;
}
