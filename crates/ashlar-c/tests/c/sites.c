/* The caches of kmalloc by call site. */
#include <ashlar.h>
#include "check.h"

/* Each use is a call site of its own. */
#define SITE(f, n) static void *site_##f##n(void) { void *p = f(64, GFP_KERNEL); if (p) *(char *)p = n; return p; }
#define SITES(f) SITE(f, 0) SITE(f, 1) SITE(f, 2) SITE(f, 3) SITE(f, 4) SITE(f, 5) SITE(f, 6) SITE(f, 7)
#define NAMES(f) site_##f##0, site_##f##1, site_##f##2, site_##f##3, site_##f##4, site_##f##5, site_##f##6, site_##f##7

SITES(kmalloc)
SITES(kzalloc)

static void *(*const sites[])(void) = { NAMES(kmalloc), NAMES(kzalloc) };
#define COUNT (sizeof(sites) / sizeof(sites[0]))

int main(void)
{
    size_t i, j, apart = 0;
    char *first[COUNT], *again[COUNT];

    for (i = 0; i < COUNT; i++) {
        first[i] = (char *)sites[i]();
        again[i] = (char *)sites[i]();
        CHECK(first[i] != NULL && again[i] != NULL);
        for (j = 1; i >= COUNT / 2 && j < 64; j++)
            CHECK(first[i][j] == 0 && again[i][j] == 0);
    }
    /* Objects of one site lie beside each other, in a slab of one page; those of two rarely do. */
    for (i = 0; i < COUNT; i++)
        for (j = 0; j < i; j++)
            apart += ((size_t)first[i] ^ (size_t)first[j]) >> 12 != 0;
    printf("%d of %d pairs are apart\n", (int)apart, (int)(COUNT * (COUNT - 1) / 2));
    for (i = 0; i < COUNT; i++) {
        CHECK(ksize(first[i]) == 64);
        kfree(first[i]);
        kfree_sized(again[i], 64);
    }
    CHECK(kmalloc(0, GFP_KERNEL) == ZERO_SIZE_PTR && kzalloc(0, GFP_KERNEL) == ZERO_SIZE_PTR);
    CHECK(kmalloc((size_t)-1, GFP_KERNEL) == NULL && errno == ENOMEM);
    CHECK(kmalloc(64, 1u << 30) == NULL && errno == EINVAL);
    return 0;
}
