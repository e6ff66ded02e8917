/* A shared library that burns CPU; a static function has no symbol once it is stripped. */
#include <stdint.h>

__attribute__((noinline)) uint64_t library_inner(uint64_t n, uint64_t rounds)
{
	for (uint64_t i = 0; i < rounds; i++)
		n = n * 2862933555777941757u + 3037000493u + i;
	return n;
}

uint64_t library_outer(uint64_t n)
{
	volatile uint64_t words[20];

	for (int i = 0; i < 20; i++)
		words[i] = library_inner(n + i, 5000000);
	return words[0] + words[19] + 1;
}
