#include "base/mountinfo.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* "36 35 98:0 /root /point rw,noatime master:1 - ext3 /dev/root rw,errors=continue": before the
 * dash there may be any number of fields. */
static bool parse(const char *line, struct mount_entry *ret)
{
	const char *behind = strstr(line, " - ");

	return behind && sscanf(line, "%*s %*s %*s %4095s %4095s", ret->root, ret->point) == 2 &&
	       sscanf(behind, " - %63s %*s %1023s", ret->type, ret->options) == 2;
}

bool mountinfo_next(FILE *f, struct mount_entry *ret)
{
	_cleanup_free_ char *line = NULL;
	size_t room = 0;

	while (getline(&line, &room, f) > 0)
		if (parse(line, ret))
			return true;
	return false;
}
