#include "profile/request_paths.h"

#include <stdlib.h>

#include "base/array.h"

void request_paths_add(struct request_paths *p, const struct request_path *request)
{
	if (p->count == REQUEST_PATHS_MOST)
		return;
	p->items[p->count] = *request;
	p->items[p->count].first = p->part_count;
	p->items[p->count++].count = 0;
}

bool request_paths_add_part(struct request_paths *p, const struct request_path_part *part)
{
	if (!p->count || p->items[p->count - 1].count == REQUEST_PATHS_MOST_PARTS)
		return true;
	if (!array_reserve(&p->parts, &p->part_capacity, p->part_count + 1))
		return false;
	p->parts[p->part_count++] = *part;
	p->items[p->count - 1].count++;
	return true;
}

void request_paths_release(struct request_paths *p)
{
	free(p->parts);
	*p = (struct request_paths){0};
}
