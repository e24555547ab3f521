/* An unwinder that allocates in each backtrace: it stands for one that fills a cache. It finds the
 * caller's frame alone. */
#include <stdlib.h>

struct context {
    size_t address;
};

size_t _Unwind_GetIP(struct context *context) {
    return context->address;
}

int _Unwind_Backtrace(int (*on_frame)(struct context *, void *), void *argument) {
    void *volatile own = malloc(77);
    struct context context = {(size_t)__builtin_return_address(0)};
    on_frame(&context, argument);
    free(own);
    return 5;
}
