/* write_made_up_profile small|service|large|hostile FORMAT [raw] > FILE */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "tests/made_up.h"

static bool make(struct made_up *m, const char *name)
{
	if (!strcmp(name, "small"))
		made_up_small(m);
	else if (!strcmp(name, "service"))
		made_up_service(m);
	else if (!strcmp(name, "large"))
		made_up_large(m, 100000);
	else if (!strcmp(name, "hostile"))
		made_up_hostile(m);
	return m->profile != NULL;
}

int main(int argc, char **argv)
{
	const struct profile_format *format = argc > 2 ? profile_format_named(argv[2]) : NULL;
	_cleanup_profile_symbols_ struct profile_symbols *symbols = NULL;
	_cleanup_(made_up_deinit) struct made_up m = {0};
	_cleanup_error_ struct error *err = NULL;

	if (!format || !make(&m, argv[1])) {
		fprintf(stderr, "write_made_up_profile small|service|large|hostile FORMAT [raw]\n");
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
