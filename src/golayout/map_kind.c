#include "golayout/map_kind.h"

#include <string.h>

/* Whether the program was built with this GOEXPERIMENT: "go1.25.1 X:a,b". */
static bool has_experiment(const struct image *img, const char *name)
{
	const char *at = img->info.experiment ? strstr(img->info.version, "X:") : NULL;
	size_t n = strlen(name);

	for (at = at ? at + 2 : ""; *at && *at != ' '; at += strspn(at, ",")) {
		size_t length = strcspn(at, ", ");

		if (length == n && !strncmp(at, name, n))
			return true;
		at += length;
	}
	return false;
}

enum go_map_kind golayout_map_kind(const struct golayout *lay, const struct image *img)
{
	if (lay->minor <= 23 || has_experiment(img, "noswissmap"))
		return MAP_OF_BUCKETS;
	return has_experiment(img, "mapsplitgroup") ? MAP_OF_SPLIT_GROUPS : MAP_OF_GROUPS;
}
