# Interpreters and compilers.
# shellcheck shell=bash

# A long C file, of which nothing can be left out, for the compilers.
{
    echo '#include <stdio.h>'
    for ((i = 0; i < 2000; i++)); do
        echo "int f$i(int x) { for (int i = 0; i < x; i++) x += i * $i ^ x; return x; }"
    done
    echo 'int main(void) { printf("%d\n", f1(10) + f1999(20)); return 0; }'
} >"$dir/long.c"
cat >"$dir/long.cc" <<'CC'
#include <algorithm>
#include <iostream>
#include <map>
#include <regex>
#include <string>
#include <vector>
int main() { std::map<std::string, std::vector<std::regex>> m; m["a"].emplace_back("a*"); std::cout << m.size(); }
CC

export PYTHONMALLOC=malloc PYTHONHASHSEED=0
py=$(python3 -c 'import sys; print(sys.executable)' 2>/dev/null || echo python3)

check "python3" "$py" "$pieces/work.py"
# The interpreter's own tests, where there is one that has them. Which of them fail is compared, not
# the time they took.
for module in json sqlite3 threading subprocess multiprocessing_fork multiprocessing_spawn multiprocessing_forkserver; do
    for tester in /usr/bin/python3 "$py" none; do
        [ "$tester" = none ] || "$tester" -c "import test.test_$module" >/dev/null 2>&1 && break
    done
    check -s -l 900 -n "$tester" -p "$(basename "$tester")" "python3: test_$module" sh -c \
        "cd '$dir' && $tester -m test test_$module 2>&1 | grep -E '^(Tests result|Result|FAIL|ERROR)' | sort -u"
done
check -p 'gcc cc1' "gcc, output as assembly" gcc -O2 -S -o - "$dir/long.c"
check -p 'g++ cc1plus' g++ g++ -x c++ -O1 -S -o - "$dir/long.cc"
check -s clang clang -O2 -S -o - "$dir/long.c"
check -s clang++ clang++ -x c++ -O1 -S -o - "$dir/long.cc"
check -s -n "cargo rustc" -p 'cargo rustc' "cargo and rustc, a crate" "$pieces/rust.sh"
check -s -n "gcc go" -p cgo "go, a program with cgo" "$pieces/go.sh" "$pieces/work.go" "$dir/go"
check perl perl "$pieces/work.pl"
check node node "$pieces/work.js"
check lua lua "$pieces/work.lua"
check ruby ruby "$pieces/work.rb"
check php php "$pieces/work.php"
check -p php -n php "php without its own allocator" env USE_ZEND_ALLOC=0 php "$pieces/work.php"
check -s -n javac -p 'javac java' java "$pieces/java.sh" "$pieces/Work.java"
