/* Memory that mmap gave is freed. */
#include "defect.h"

int main(void) {
    void *volatile a = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    tell(a);
    free(a);
    return 0;
}
