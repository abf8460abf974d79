#include "data/hdf5_structure.h"

#include <set>
#include <vector>

#include "base/error.h"
#include "data/hdf5_object.h"
#include "data/hdf5_superblock.h"

namespace convoy::h5 {
namespace {

[[noreturn]] void refuse(const Unfit& unfit, const std::string& name, const std::string& path) {
    fail(Exit::bad_input, path + ": " + name + " is not as convoy stores it (" + unfit.part +
                              "); make the file again, or " + write_as_v110);
}

}  // namespace

void check_structure(const InputBytes& file, Objects objects) {
    constexpr size_t most_objects = 1 << 16;
    const std::optional<uint64_t> root = check_superblock(file);
    if (!root) return;
    const std::string& path = file.path();
    Blocks blocks(file.descriptor(), path);
    std::set<uint64_t> met{*root};
    std::vector<uint64_t> left{*root};
    while (!left.empty()) {
        const uint64_t address = left.back();
        left.pop_back();
        try {
            for (const uint64_t child : check_object(blocks, address))
                if (met.insert(child).second) left.push_back(child);
            expect(met.size() <= most_objects, "many objects");
        } catch (const Unfit& unfit) {
            if (address == *root || objects == Objects::all || blocks.overlapped() || met.size() > most_objects)
                refuse(unfit, address == *root ? "/" : "the object at byte " + std::to_string(address), path);
        }
    }
}

void check_structure(const std::string& path, Objects objects) { check_structure(InputBytes(path), objects); }

void check_object_at(int fd, uint64_t address, const std::string& name, const std::string& path) {
    try {
        Blocks blocks(fd, path);
        check_object(blocks, address);
    } catch (const Unfit& unfit) {
        refuse(unfit, name, path);
    }
}

}  // namespace convoy::h5
