/* Promise: C++ objects of threads and static ones allocate and free in their destructors. */
#include "behaviour.h"
#include <memory>
#include <string>
#include <thread>
#include <vector>

struct Owner {
    std::vector<std::string> kept;
    Owner() { kept.assign(50, std::string(300, 'x')); }
    ~Owner() {
        std::string more;
        for (auto &one : kept) more += one;
        MUST(more.size() == kept.size() * 300);
    }
};
static Owner of_all;
thread_local Owner of_thread;
int main() {
    for (int round = 0; round < 20; round++) {
        std::vector<std::thread> threads;
        for (int i = 0; i < 5; i++)
            threads.emplace_back([i] { of_thread.kept.emplace_back(std::string(300, 'a' + i)); });
        for (auto &one : threads) one.join();
    }
    of_thread.kept.emplace_back(std::string(300, 'm'));
    auto shared = std::make_shared<Owner>();
    std::thread([shared]() mutable { shared.reset(); }).join();
    return 0;
}
