/*
 * The directory of a path, opened one component at a time, so that no symbolic link of another user
 * decides where root writes. Names in the directory are then used with openat() and its relatives:
 * later changes to the path have no effect.
 */
#ifndef BASE_FOLDER_H
#define BASE_FOLDER_H

#include <stdbool.h>
#include <sys/stat.h>

#include "base/error.h"

/*
 * Opens the directory (O_PATH; the caller closes it) and finds the last component, which points
 * into `path` and is empty if the path ends in a slash. ERROR_FAILED: the directory does not exist,
 * or a link of another user leads there.
 */
struct error *folder_open(const char *path, int *ret_folder, const char **ret_name) must_check;

/*
 * Whether only root or this user can have made this entry: others cannot write the directory, or
 * the entry belongs to root or this user and has no second name.
 */
bool folder_entry_is_ours(int folder, const struct stat *entry);

#endif
