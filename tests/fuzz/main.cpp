// libFuzzer's entry: feeds its inputs to the reader that READER names, in an empty folder of a RAM
// disk.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "tests/fuzz/readers.h"
#include "tests/support/test_comm.h"

namespace {
convoy::Comm* the_comm = nullptr;
std::string reader;
std::string parent = "/dev/shm/convoy-fuzz-XXXXXX";
}  // namespace

convoy::Comm& convoy::test_comm() { return *the_comm; }

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
    if (!mkdtemp(parent.data())) return 1;
    the_comm = new convoy::Comm(argc, argv);
    reader = std::getenv("READER") ? std::getenv("READER") : "shard";
    return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string folder = parent + "/files";
    std::filesystem::create_directories(folder);
    convoy::test::feed(reader, folder, {data, size});
    std::filesystem::remove_all(folder);
    return 0;
}
