/*
 * The folder of a path, found one component at a time, so that no symbolic link of somebody else's
 * decides where root writes. Names in the folder are then used with openat() and its relatives:
 * what others do to the path afterwards changes nothing.
 */
#ifndef BASE_FOLDER_H
#define BASE_FOLDER_H

#include <stdbool.h>
#include <sys/stat.h>

#include "base/error.h"

/*
 * Opens the folder (O_PATH; the caller closes it) and finds the last component, which points into
 * `path` and is empty where the path ends in a slash. ERROR_FAILED: the folder does not exist, or a
 * link of another user leads there.
 */
struct error *folder_open(const char *path, int *ret_folder, const char **ret_name) must_check;

/*
 * Whether nobody but root and ourselves can have put this entry into the folder: others cannot
 * write the folder, or the entry belongs to one of us and has no second name.
 */
bool folder_entry_is_ours(int folder, const struct stat *entry);

#endif
