#include "base/descriptors.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

/* Without /proc it is not known which ones are open. */
static void close_each(unsigned int first, unsigned int last)
{
	struct rlimit limit = {.rlim_max = 1024};

	getrlimit(RLIMIT_NOFILE, &limit);
	for (unsigned int fd = first; fd <= last && fd < limit.rlim_max; fd++)
		close((int)fd);
}

/* For kernels before 5.9, which have no close_range(2). */
static void close_listed(unsigned int first, unsigned int last)
{
	DIR *folder = opendir("/proc/self/fd");
	const struct dirent *entry;

	if (!folder) {
		close_each(first, last);
		return;
	}
	while ((entry = readdir(folder))) {
		unsigned int fd = (unsigned int)strtoul(entry->d_name, NULL, 10);

		if (fd >= first && fd <= last && *entry->d_name != '.' &&
		    fd != (unsigned int)dirfd(folder))
			close((int)fd);
	}
	closedir(folder);
}

void descriptors_close(unsigned int first, unsigned int last)
{
	if (first <= last && close_range(first, last, 0))
		close_listed(first, last);
}

void descriptors_keep(int a, int b)
{
	unsigned int first = a < b ? a : b, last = a < b ? b : a;
	int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = 0; fd < 3 && nothing >= 0; fd++)
		if (fd != a && fd != b)
			dup2(nothing, fd);
	if (first > 3)
		descriptors_close(3, first - 1);
	if (last > 3)
		descriptors_close(first < 3 ? 3 : first + 1, last - 1);
	descriptors_close(last < 3 ? 3 : last + 1, ~0u);
}
