/* A C program on the installed library: a cache, kmalloc, the options. Also compiled as C++. */
#include <ashlar.h>
#include <stdio.h>
#include <string.h>

struct request {
	unsigned long id;
	char body[200];
};

int main(void)
{
	struct kmem_cache *requests = kmem_cache_create("request", sizeof(struct request), NULL, SLAB_HWCACHE_ALIGN);
	struct request *request;
	char *text;

	if (!requests)
		return 1;
	request = (struct request *)kmem_cache_zalloc(requests, GFP_KERNEL);
	if (!request || request->id != 0 || kmem_cache_size(requests) != sizeof(struct request))
		return 2;
	text = kstrdup("text", GFP_KERNEL);
	if (!text || strcmp(text, "text") != 0 || ksize(text) < 5)
		return 3;
	kfree(text);
	kmem_cache_free(requests, request);
	kmem_cache_destroy(requests);
	printf("ashlar %s %s\n", ashlar_version(), ashlar_mode());
	return 0;
}
