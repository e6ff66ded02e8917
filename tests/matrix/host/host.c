/* A C program that loads a Go library and runs its main function. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	void (*run)(void) = library ? (void (*)(void))dlsym(library, "Main") : NULL;

	if (!run) {
		fprintf(stderr, "host: %s\n", argc > 1 ? dlerror() : "which library?");
		return 1;
	}
	run();
	return 0;
}
