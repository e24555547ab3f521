// The library's containers, threads and streams, which throw by the C++ library's own functions.
#include <cstdio>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

int main() {
    std::vector<std::thread> threads;
    int sums[4] = {};
    for (int t = 0; t < 4; t++)
        threads.emplace_back([&sums, t] {
            std::map<std::string, std::unique_ptr<std::vector<int>>> m;
            for (int i = 0; i < 5000; i++) m[std::to_string(i % 700)] = std::make_unique<std::vector<int>>(i % 100, 1);
            for (auto &[k, v] : m) sums[t] += v->size();
        });
    for (auto &t : threads) t.join();
    try {
        std::vector<char> v((size_t)1 << 62);
        return 1;
    } catch (std::bad_alloc &) {
    }
    try {
        std::string s;
        s.resize(s.max_size());
        return 2;
    } catch (std::exception &) {
    }
    std::ostringstream out;
    out << sums[0];
    if (out.str() != std::to_string(sums[3])) return 3;
    puts("well");
}
