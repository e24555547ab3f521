/* A string of 24 characters goes to 24 bytes, its end behind them. */
#include "defect.h"

int main(void) {
    char *volatile a = malloc(24);
    strcpy(a, "twenty-four characters..");
    free(a);
    return 0;
}
