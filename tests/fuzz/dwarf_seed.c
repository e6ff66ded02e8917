/* The seed of the fuzz target `dwarf`: a C library with frames, variables and structures. Its names
 * are short, so that they are in .debug_info itself, as Go's are. */
typedef struct abd {
	long x, y;
} abd;

struct abc {
	char c;
	abd in;
	struct abc *up;
};

static struct abc top = {.c = 1};

__attribute__((noinline)) long far(const struct abc *a, long n)
{
	long sum = 0, t[8];

	for (int i = 0; i < 8; i++)
		t[i] = n * i + a->in.x;
	for (int i = 0; i < 8; i++)
		sum += t[i & (n | 3)];
	return sum;
}

static inline long mid(struct abc *a, long n)
{
	long k = far(a, n);

	a->up = &top;
	return k + far(a->up, k);
}

long fun(struct abc *a, long n)
{
	char room[n + 16];

	room[n] = (char)mid(a, n);
	return room[n] + mid(a, n + 1) + far((struct abc *)room, n);
}
