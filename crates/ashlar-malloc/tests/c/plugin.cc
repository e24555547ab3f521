// A C++ library that comes and goes: static and thread-local objects with memory of their own.
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

static std::map<std::string, std::vector<int>> table{{"one", {1}}, {"a longer name than fits in the object", {1, 2}}};
static std::mutex guards_table;
static thread_local std::unique_ptr<std::string> mine;

extern "C" void *plugin(void *p) {
    mine = std::make_unique<std::string>(500, 'x');
    {
        std::lock_guard<std::mutex> guard(guards_table);
        table["one"].resize(table["one"].size() % 1000 + 1);
    }
    free(p);
    return malloc(mine->size());
}
