/* write_made_up_profile small|service|waits|large|hostile|idle|nothing|recursive FORMAT [raw] >
 * FILE */
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
		{"small", made_up_small},     {"service", made_up_service},
		{"waits", made_up_waits},     {"large", made_up_hundred_thousand},
		{"hostile", made_up_hostile}, {"idle", made_up_idle},
		{"nothing", made_up_nothing}, {"recursive", made_up_recursive},
	};

	for (size_t i = 0; i < ARRAY_SIZE(profiles); i++)
		if (!strcmp(name, profiles[i].name))
			profiles[i].make(m);
	return m->profile != NULL;
}

int main(int argc, char **argv)
{
	const struct profile_format *format = argc > 2 ? profile_format_named(argv[2]) : NULL;
	_cleanup_profile_symbols_ struct profile_symbols *symbols = NULL;
	_cleanup_(made_up_deinit) struct made_up m = {0};
	_cleanup_error_ struct error *err = NULL;

	if (!format || !make(&m, argv[1])) {
		fprintf(stderr, "write_made_up_profile NAME FORMAT [raw]\n");
		return 2;
	}
	if (argc > 3)
		err = profile_symbolize(m.profile, NULL, &symbols);
	else
		symbols = made_up_symbolize(&m);
	if (!err)
		err = format->write(m.profile, symbols, stdout);
	return err || fflush(stdout) ? 1 : 0;
}
