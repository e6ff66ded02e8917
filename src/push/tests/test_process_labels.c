/* The labels of a process, from environments as programs have them, and worse. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/array.h"
#include "base/unit_test.h"
#include "push/process_labels.h"

static int environment_of(const char *bytes, size_t size)
{
	int fd = memfd_create("environment", MFD_CLOEXEC);

	assert_int_equal(write(fd, bytes, size), size);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	return fd;
}

static const char *value_of(const struct labels *l, const char *name)
{
	char prometheus[LABEL_MOST + 1];

	for (size_t i = 0; i < l->count; i++) {
		label_prometheus_name(&l->items[i], prometheus);
		if (!strcmp(prometheus, name))
			return l->items[i].value;
	}
	return NULL;
}

static struct labels labels_of(const char *bytes, size_t size, const char *const *own)
{
	struct labels l = {0};
	int fd = environment_of(bytes, size);

	assert_null(process_labels_read(fd, getpid(), "program", "go1.27.2", own, &l));
	close(fd);
	return l;
}

#define LABELS_OF(text, own) labels_of(text, sizeof(text), own)

static void test_opentelemetry_names_the_service(void **state)
{
	struct labels l =
		LABELS_OF("PATH=/bin\0OTEL_SERVICE_NAME=shop\0"
			  "OTEL_RESOURCE_ATTRIBUTES=service.name=other, service.version=1%2E2%2,"
			  "k8s.pod.name=shop-1\0SERVICE_VERSION=9",
			  NULL);

	assert_string_equal(value_of(&l, "service_name"), "shop");
	assert_string_equal(value_of(&l, "service_version"), "1.2%2");
	assert_string_equal(value_of(&l, "pod"), "shop-1");
	assert_null(value_of(&l, "namespace"));
	assert_string_equal(value_of(&l, "go_version"), "go1.27.2");
	process_labels_release(&l);
	l = LABELS_OF("OTEL_RESOURCE_ATTRIBUTES=service.name=attributes", NULL);
	assert_string_equal(value_of(&l, "service_name"), "attributes");
	process_labels_release(&l);
}

static void test_without_any_name_it_is_the_programs(void **state)
{
	struct labels l = LABELS_OF("OTEL_SERVICE_NAME=\0XOTEL_SERVICE_NAME=no", NULL);

	assert_string_equal(value_of(&l, "service_name"), "program");
	process_labels_release(&l);
	assert_null(process_labels_read(-1, getpid(), "program", "", NULL, &l));
	assert_string_equal(value_of(&l, "service_name"), "program");
	process_labels_release(&l);
}

static void test_in_kubernetes_the_host_name_is_the_pods(void **state)
{
	struct labels l = LABELS_OF("HOSTNAME=web-7\0KUBERNETES_SERVICE_HOST=10.0.0.1\0"
				    "POD_NAMESPACE=prod",
				    NULL);

	assert_string_equal(value_of(&l, "pod"), "web-7");
	assert_string_equal(value_of(&l, "namespace"), "prod");
	process_labels_release(&l);
	l = LABELS_OF("HOSTNAME=laptop", NULL);
	assert_null(value_of(&l, "pod"));
	process_labels_release(&l);
}

static void test_labels_of_the_user_replace_others(void **state)
{
	static const char *const own[] = {"service.name=mine", "hostname=h", "team.name=a=b", NULL};
	struct labels l = LABELS_OF("OTEL_SERVICE_NAME=shop", own);
	size_t count = l.count;

	assert_string_equal(value_of(&l, "service_name"), "mine");
	assert_string_equal(value_of(&l, "hostname"), "h");
	assert_string_equal(value_of(&l, "team_name"), "a=b");
	process_labels_release(&l);
	l = LABELS_OF("OTEL_SERVICE_NAME=shop", NULL);
	assert_int_equal(count, l.count + 1);
	process_labels_release(&l);
}

static void test_hostile_bytes_are_cut_and_made_valid(void **state)
{
	static char bytes[300 << 10];
	struct labels l;

	memset(bytes, 0xff, sizeof(bytes));
	memcpy(bytes, "OTEL_SERVICE_NAME=", 18);
	l = labels_of(bytes, sizeof(bytes), NULL);
	assert_true(strlen(value_of(&l, "service_name")) <= 3 * LABEL_MOST);
	assert_memory_equal(value_of(&l, "service_name"), "\xef\xbf\xbd\xef\xbf\xbd", 6);
	process_labels_release(&l);
	memset(bytes, '=', sizeof(bytes));
	l = labels_of(bytes, sizeof(bytes), NULL);
	assert_string_equal(value_of(&l, "service_name"), "program");
	process_labels_release(&l);
}

static void test_keys_are_checked(void **state)
{
	static const char *const good[] = {"a=b", "_x=", "k8s.io/name=v",
					   "service-name==", "A1=\xff"};
	static const char *const bad[] = {"",      "a",     "=b",   "1a=b",
					  "a b=c", "a\n=b", ".a=b", "\xc3\xa4=b"};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		assert_true(label_is_valid(good[i]));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_false(label_is_valid(bad[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_opentelemetry_names_the_service),
		cmocka_unit_test(test_without_any_name_it_is_the_programs),
		cmocka_unit_test(test_in_kubernetes_the_host_name_is_the_pods),
		cmocka_unit_test(test_labels_of_the_user_replace_others),
		cmocka_unit_test(test_hostile_bytes_are_cut_and_made_valid),
		cmocka_unit_test(test_keys_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
