/* What the numbers of a table are, and how they and its rows are called. */
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "cli/report.h"

const char *report_bytes(uint64_t bytes, char text[static 16])
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double value = (double)bytes;
	size_t i = 0;

	for (; value >= 999.5 && i + 1 < ARRAY_SIZE(units); i++)
		value /= 1024;
	snprintf(text, 16, "%.3g %s", value, units[i]);
	return bytes ? text : "-";
}

bool report_has_bytes(const struct report_file *file)
{
	return file->profile && gospect_profile_info(file->profile)->unit == GOSPECT_BYTES;
}

bool report_has_values(const struct report_file *file)
{
	return report_has_bytes(file) ||
	       (file->profile && !strcmp(gospect_profile_info(file->profile)->value_name, "delay"));
}

const char *report_heading(const struct report_table *table)
{
	static const char *const headings[] = {
		[GOSPECT_GROUP_ROOT] = "START FUNCTION",
		[GOSPECT_GROUP_FUNCTION] = "FUNCTION",
		[GOSPECT_GROUP_STATE] = "STATE",
		[GOSPECT_GROUP_WAIT] = "WAIT REASON",
	};

	return table->key == GOSPECT_GROUP_LABEL ? table->label : headings[table->key];
}
