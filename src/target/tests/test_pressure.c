/* Against files as the kernel writes them. */
#include <sys/stat.h>

#include "base/test_folder.h"
#include "base/unit_test.h"
#include "target/pressure.h"

static void write_file(const char *path, const char *text)
{
	char part[256];
	FILE *f;

	for (size_t i = 1; path[i]; i++)
		if (path[i] == '/') {
			snprintf(part, sizeof(part), "%.*s", (int)i, path);
			mkdir(part, 0755);
		}
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void write_machine(void)
{
	write_file("./proc/pressure/cpu",
		   "some avg10=15.91 avg60=39.35 avg300=43.77 total=26149680274\n"
		   "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
}

static void write_group(const char *mount)
{
	char path[128];

	write_file("./proc/7/cgroup", "9:name=systemd:/\n8:pids:/\n0::/shop.slice/till.service\n");
	snprintf(path, sizeof(path), ".%s/shop.slice/till.service/cpu.pressure", mount);
	write_file(path, "some avg10=2.50 avg60=0.00 avg300=0.00 total=12\n");
}

static void of_the_group_where_it_is_told(void **state)
{
	write_machine();
	write_group("/sys/fs/cgroup");
	assert_float_equal(cpu_pressure(".", 7), 2.5, 0.001);
}

static void of_the_group_beside_version_1(void **state)
{
	write_machine();
	write_group("/sys/fs/cgroup/unified");
	assert_float_equal(cpu_pressure(".", 7), 2.5, 0.001);
}

static void else_of_the_machine(void **state)
{
	write_machine();
	assert_float_equal(cpu_pressure(".", 7), 15.91, 0.001);
	write_file("./proc/7/cgroup", "0::/\n");
	assert_float_equal(cpu_pressure(".", 7), 15.91, 0.001);
	write_file("./proc/7/cgroup", "1:cpu:/a\n");
	assert_float_equal(cpu_pressure(".", 7), 15.91, 0.001);
}

static void not_known_where_nothing_is_told(void **state)
{
	assert_true(cpu_pressure(".", 7) < 0);
	write_file("./proc/pressure/cpu", "");
	assert_true(cpu_pressure(".", 7) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_IN_FOLDER(of_the_group_where_it_is_told),
		TEST_IN_FOLDER(of_the_group_beside_version_1),
		TEST_IN_FOLDER(else_of_the_machine),
		TEST_IN_FOLDER(not_known_where_nothing_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
