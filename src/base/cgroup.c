#include "base/cgroup.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/door.h"

bool cgroup_has_word(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *at = list; (at = strstr(at, word)); at += n)
		if ((at == list || at[-1] == ',') && (!at[n] || at[n] == ','))
			return true;
	return false;
}

bool cgroup_leave(char *path, size_t root)
{
	char *end = strlen(path) > root ? strrchr(path, '/') : NULL;

	if (end)
		*end = '\0';
	return end;
}

/* A line "4:cpu,memory:/group": the middle lists the controllers. Version 2 has none there. */
bool cgroup_find(const char *file, const char *controller, char ret[PATH_MAX])
{
	_cleanup_fclose_ FILE *f = door_fopen(file);
	char line[PATH_MAX + 256];

	while (f && fgets(line, sizeof(line), f)) {
		char *controllers = strchr(line, ':'), *path;

		path = controllers ? strchr(controllers + 1, ':') : NULL;
		if (!path)
			continue;
		*path++ = '\0';
		path[strcspn(path, "\n")] = '\0';
		if (controller ? !cgroup_has_word(controllers + 1, controller) : controllers[1])
			continue;
		snprintf(ret, PATH_MAX, "%s", path);
		return true;
	}
	return false;
}
