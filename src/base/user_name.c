#include "base/user_name.h"

#include <pwd.h>
#include <stdio.h>

#include "base/door.h"

#ifdef GOSPECT_STATIC
static struct passwd *find_user(uid_t uid, struct passwd *room, char *texts, size_t size)
{
	struct passwd *entry = NULL;
	FILE *file = door_fopen("/etc/passwd");

	if (!file)
		return NULL;
	while (!fgetpwent_r(file, room, texts, size, &entry) && entry->pw_uid != uid)
		entry = NULL;
	fclose(file);
	return entry;
}
#else
static struct passwd *find_user(uid_t uid, struct passwd *room, char *texts, size_t size)
{
	struct passwd *entry = NULL;

	getpwuid_r(uid, room, texts, size, &entry);
	return entry;
}
#endif

bool user_name_find(uid_t uid, char *ret, size_t size)
{
	char texts[4096];
	struct passwd room, *entry = find_user(uid, &room, texts, sizeof(texts));

	if (entry)
		snprintf(ret, size, "%s", entry->pw_name);
	return entry;
}
