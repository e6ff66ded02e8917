/* The addresses of the runtime's variables: by symbol, else by the rules of runtime_variables.c. */
#ifndef GOLAYOUT_RUNTIME_VARIABLES_H
#define GOLAYOUT_RUNTIME_VARIABLES_H

#include "golayout/golayout.h"

/* Fills lay->v; the numbers must be decided and the functions loaded. ERROR_UNSUPPORTED names the
 * missing variable. */
struct error *variables_find(const struct image *img, struct golayout *lay) must_check;

/* The same by the rules alone, whatever symbols there are: for tests of the rules. */
struct error *variables_find_by_rules(const struct image *img, const struct golayout_numbers *n,
				      struct golayout_variables *ret) must_check;

#endif
