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

#endif
