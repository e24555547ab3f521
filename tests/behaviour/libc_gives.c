/* Promise: what the C library gives to be freed is freed by free: strings, lines, directories,
   paths, patterns, streams, addresses. */
#include "behaviour.h"
#include <dirent.h>
#include <glob.h>
#include <iconv.h>
#include <locale.h>
#include <netdb.h>
#include <regex.h>
#include <search.h>
#include <wchar.h>

static int order(const void *a, const void *b) { return *(int *)a - *(int *)b; }
int main(void) {
    for (int round = 0; round < 20; round++) {
        char *text, *line = NULL;
        size_t size = 0;
        free(strdup("text")), free(strndup("text", 2)), free(wcsdup(L"text"));
        MUST(asprintf(&text, "%0*d", 30000, 7) == 30000);
        free(text);
        free(getcwd(NULL, 0)), free(realpath("/usr/../usr/bin", NULL)), free(get_current_dir_name());
        FILE *file = fopen("/proc/self/maps", "r");
        MUST(file != NULL);
        while (getline(&line, &size, file) > 0) continue;
        free(line);
        fclose(file);
        struct dirent **names;
        int count = scandir("/usr", &names, NULL, alphasort);
        while (count > 0) free(names[--count]);
        free(names);
        glob_t found;
        if (glob("/usr/*", 0, NULL, &found) == 0) globfree(&found);
        regex_t pattern;
        MUST(regcomp(&pattern, "(a|b)*c{2,9}[[:alpha:]]+", REG_EXTENDED) == 0);
        MUST(regexec(&pattern, "ababccx", 0, NULL, 0) == 0);
        regfree(&pattern);
        setlocale(LC_ALL, round % 2 ? "C" : "C.UTF-8");
        iconv_t converter = iconv_open("UTF-16", "UTF-8");
        if (converter != (iconv_t)-1) iconv_close(converter);
        struct addrinfo *address, hints = {.ai_flags = AI_NUMERICHOST};
        MUST(getaddrinfo("127.0.0.1", "80", &hints, &address) == 0);
        freeaddrinfo(address);
        int *numbers = malloc(400000), *key;
        for (int i = 0; i < 100000; i++) numbers[i] = i * 7919 % 100003;
        qsort(numbers, 100000, sizeof *numbers, order);
        MUST(numbers[0] <= numbers[1] && numbers[99998] <= numbers[99999]);
        void *root = NULL;
        for (int i = 0; i < 100; i++) tsearch(&numbers[i], &root, order);
        while (root) key = *(int **)root, tdelete(key, &root, order);
        free(numbers);
    }
    return 0;
}
