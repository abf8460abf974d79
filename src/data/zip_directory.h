// Reads the directory of a zip file whose members are stored without compression, as torch.save()
// writes it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "data/input_bytes.h"

namespace convoy {

struct ZipMember {
    std::string name;
    int64_t offset = 0, bytes = 0;  ///< of the content, in the file
};

/// Returns all members. Throws Exit::bad_input if the directory is damaged. Also throws it for a
/// member that is compressed, encrypted, outside the file, overlapping another one, or there twice.
/// Names that differ only in lower_case() count as equal, because PyTorch takes them as equal.
std::vector<ZipMember> stored_members(const InputBytes& file);

}  // namespace convoy
