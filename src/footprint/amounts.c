#include "footprint/amounts.h"

#include <stdio.h>

#include "base/array.h"

const char *amount_text(uint64_t bytes, char ret[static 16])
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double value = (double)bytes;
	size_t i = 0;

	for (; value >= 999.5 && i + 1 < ARRAY_SIZE(units); i++)
		value /= 1024;
	snprintf(ret, 16, "%.3g %s", value, units[i]);
	return ret;
}
