// What programs that replace operators new and delete share: a trace of the replaced functions that
// ran.
#include <cstddef>
#include <new>

// Adds one call to the trace; allocates nothing.
void note(const char *name, std::size_t size, std::size_t align);

// What replaced forms of new throw for a request of this many bytes.
struct Refused {};
const std::size_t REFUSED = 77777;
