#include "base/cgroup.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/door.h"

#define LINE_SIZE (PATH_MAX + 256)

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

/* Splits a line "4:cpu,memory:/group" and returns the path; the middle lists the controllers.
 * It is empty in version 2. NULL: not such a line. */
static char *split_line(char *line, char **ret_controllers)
{
	char *controllers = strchr(line, ':'), *path;

	path = controllers ? strchr(controllers + 1, ':') : NULL;
	if (!path)
		return NULL;
	*path++ = '\0';
	path[strcspn(path, "\n")] = '\0';
	*ret_controllers = controllers + 1;
	return path;
}

/* The path of the next line, which it keeps in `line`; NULL: that was the last one. */
static char *next_group(FILE *f, char line[LINE_SIZE], char **ret_controllers)
{
	char *path = NULL;

	while (!path && f && fgets(line, LINE_SIZE, f))
		path = split_line(line, ret_controllers);
	return path;
}

bool cgroup_find(const char *file, const char *controller, char ret[PATH_MAX])
{
	_cleanup_fclose_ FILE *f = door_fopen(file);
	char line[LINE_SIZE], *controllers, *path;

	while ((path = next_group(f, line, &controllers))) {
		if (controller ? !cgroup_has_word(controllers, controller) : *controllers)
			continue;
		snprintf(ret, PATH_MAX, "%s", path);
		return true;
	}
	return false;
}

/* ---- containers ---- */

/* Engines use 64 digits. Shorter numbers are those of sessions. */
#define LEAST_ID 32

static bool cut_end(char *name, const char *end)
{
	size_t n = strlen(name), k = strlen(end);

	if (n <= k || strcmp(name + n - k, end) != 0)
		return false;
	name[n - k] = '\0';
	return true;
}

static bool is_id(const char *word)
{
	size_t n = strspn(word, "0123456789abcdef");

	return n >= LEAST_ID && !word[n];
}

static const char *behind(const char *name, const char *begin)
{
	size_t n = strlen(begin);

	return !strncmp(name, begin, n) && name[n] ? name + n : NULL;
}

/* Decodes systemd's escapes, such as "\x2d", in place. */
static void unescape(char *name)
{
	char *to = name;
	unsigned int byte;

	for (const char *at = name; *at; to++) {
		bool escaped = at[0] == '\\' && at[1] == 'x' && isxdigit((unsigned char)at[2]) &&
			       isxdigit((unsigned char)at[3]);

		*to = *at;
		if (escaped && sscanf(at + 2, "%2x", &byte) == 1 && byte)
			*to = (char)byte;
		at += escaped ? 4 : 1;
	}
	*to = '\0';
}

/* The container of one name of the path, which is modified; NULL: none. */
static const char *container_in(char *name)
{
	bool is_scope = cut_end(name, ".scope"), is_service = cut_end(name, ".service");
	const char *machine = is_scope     ? behind(name, "machine-")
			      : is_service ? behind(name, "systemd-nspawn@")
					   : behind(name, "lxc.payload.");
	const char *id = name;

	if (machine) {
		unescape((char *)machine);
		return machine;
	}
	/* "kubepods-pod1.slice:cri-containerd:ID" comes from an engine without support for systemd.
	 */
	for (const char *at = name; *at; at++)
		if (*at == '-' || *at == ':')
			id = at + 1;
	return is_id(id) ? id : NULL;
}

/* Finds the container in one path, which is modified. */
static bool find_container(char *path, const char *begin, char ret[CGROUP_CONTAINER_SIZE])
{
	bool found = false;
	char *rest;

	for (char *name = strtok_r(path, "/", &rest); name; name = strtok_r(NULL, "/", &rest)) {
		const char *id = container_in(name);

		if (!id || (begin && strncmp(id, begin, strlen(begin)) != 0))
			continue;
		snprintf(ret, CGROUP_CONTAINER_SIZE, "%s", id);
		found = true;
	}
	return found;
}

bool cgroup_container(const char *file, const char *begin, char ret[CGROUP_CONTAINER_SIZE])
{
	_cleanup_fclose_ FILE *f = door_fopen(file);
	char line[LINE_SIZE], *controllers, *path;
	bool found = false;

	while (!found && (path = next_group(f, line, &controllers)))
		found = find_container(path, begin, ret);
	return found;
}
