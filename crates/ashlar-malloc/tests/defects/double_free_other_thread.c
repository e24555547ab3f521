/* A small object is freed by one thread and again by another. */
#include "defect.h"

static void *other(void *a) {
    free(a);
    return NULL;
}
int main(void) {
    void *volatile a = malloc(50);
    pthread_t thread;
    tell(a);
    pthread_create(&thread, NULL, other, a);
    pthread_join(thread, NULL);
    free(a);
    return 0;
}
