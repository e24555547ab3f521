/* Memory of the stack frame is freed. */
#include "defect.h"

int main(void) {
    void *volatile a = __builtin_alloca(100);
    tell(a);
    free(a);
    return 0;
}
