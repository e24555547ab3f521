/* Code as the kernel has it, on the installed <linux/slab.h>. */
#include <linux/slab.h>
#include <linux/types.h>
#include <stdio.h>

struct inode_info {
	u64 number;
	u32 links;
};

static void construct(void *object)
{
	struct inode_info *info = object;

	info->number = 7;
}

int main(void)
{
	struct kmem_cache *plain = KMEM_CACHE(inode_info, SLAB_RECLAIM_ACCOUNT);
	struct kmem_cache *built = kmem_cache_create("inode_built", sizeof(struct inode_info), 0, 0, construct);
	struct inode_info *one, *two;
	u32 *numbers = kcalloc(16, sizeof(*numbers), GFP_KERNEL);

	if (!plain || !built || !numbers || numbers[15] != 0)
		return 1;
	one = kmem_cache_zalloc(plain, GFP_KERNEL);
	two = kmem_cache_alloc(built, GFP_ATOMIC);
	if (!one || one->number != 0 || !two || two->number != 7)
		return 2;
	kmem_cache_free(built, two);
	kmem_cache_free(plain, one);
	kfree(numbers);
	kmem_cache_destroy(built);
	kmem_cache_destroy(plain);
	puts("kernel code");
	return 0;
}
