/* Promise: obstacks, hash tables and argument vectors of the C library work on malloc.
   (tst-obstack.) */
#include "behaviour.h"
#include <argz.h>
#include <obstack.h>
#include <search.h>

#define obstack_chunk_alloc malloc
#define obstack_chunk_free free
int main(void) {
    for (int round = 0; round < 5; round++) {
        struct obstack stack;
        obstack_init(&stack);
        void *first = obstack_alloc(&stack, 1);
        for (int i = 1; i < 3000; i++) {
            obstack_grow(&stack, "some bytes", 10);
            obstack_blank(&stack, i);
            memset((char *)obstack_base(&stack) + 10, i, i);
            char *object = obstack_finish(&stack);
            MUST(memcmp(object, "some bytes", 10) == 0 && object[10] == (char)i);
        }
        obstack_free(&stack, first);
        obstack_free(&stack, NULL);
        MUST(hcreate(2000) != 0);
        char *keys[1000];
        for (int i = 0; i < 1000; i++) {
            MUST(asprintf(&keys[i], "key %d", i) > 0);
            MUST(hsearch((ENTRY){keys[i], keys[i]}, ENTER) != NULL);
        }
        for (int i = 0; i < 1000; i++) MUST(hsearch((ENTRY){keys[i], NULL}, FIND)->data == keys[i]);
        hdestroy();
        for (int i = 0; i < 1000; i++) free(keys[i]);
        char *words = NULL;
        size_t length = 0;
        for (int i = 0; i < 500; i++) MUST(argz_add(&words, &length, "word") == 0);
        MUST(argz_count(words, length) == 500);
        free(words);
    }
    return 0;
}
