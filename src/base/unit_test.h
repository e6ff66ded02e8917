/* cmocka, with the headers that it needs before it. For unit tests only. */
#ifndef BASE_UNIT_TEST_H
#define BASE_UNIT_TEST_H

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

/* With AddressSanitizer what a test computes takes three times as long. */
#ifdef __SANITIZE_ADDRESS__
#define UNDER_ASAN 1
#else
#define UNDER_ASAN 0
#endif

#endif
