/* In which of its ways the runtime of a program keeps maps. */
#ifndef GOLAYOUT_MAP_KIND_H
#define GOLAYOUT_MAP_KIND_H

#include "golayout/golayout.h"
#include "labels/go_header_map.h"

enum go_map_kind golayout_map_kind(const struct golayout *lay, const struct image *img);

#endif
