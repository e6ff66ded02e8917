/* A line of /proc/PID/maps, which smaps has too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "target/ops.h"

void target_cut_deleted(char *path)
{
	static const char said[] = " (deleted)";
	size_t n = strlen(path), mark = sizeof(said) - 1;

	if (n > mark && *path == '/' && !strcmp(path + n - mark, said))
		path[n - mark] = '\0';
}

struct error *target_parse_map(char *line, struct target_map *ret)
{
	unsigned long start, end, offset, inode;
	unsigned int major, minor;
	char flags[5];
	int path = 0;

	if (sscanf(line, "%lx-%lx %4s %lx %x:%x %lu %n", &start, &end, flags, &offset, &major,
		   &minor, &inode, &path) < 7)
		return error_format(ERROR_CORRUPT, "cannot read this line of maps: %s", line);
	line[strcspn(line, "\n")] = '\0';
	*ret = (struct target_map){
		.start = start,
		.end = end,
		.offset = offset,
		.readable = flags[0] == 'r',
		.writable = flags[1] == 'w',
		.executable = flags[2] == 'x',
		.device = (dev_t)major << 32 | minor,
		.inode = inode,
		.path = strdup(path ? line + path : ""),
	};
	if (!ret->path)
		return &error_no_memory;
	target_cut_deleted(ret->path);
	return NULL;
}
