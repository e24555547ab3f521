/* A program whose malloc is linked, not preloaded: exits 0 if that malloc is ashlar's, whose
   malloc_info says so. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
	char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);
	int ours;

	if (!stream || malloc_info(0, stream) != 0 || fclose(stream) != 0)
		return 1;
	ours = strstr(text, "version=\"ashlar-") != NULL;
	free(text);
	return ours ? 0 : 2;
}
