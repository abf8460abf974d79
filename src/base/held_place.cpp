#include "base/held_place.h"

#include <cerrno>

#include "base/durable.h"

namespace convoy {
namespace {

/// Opens the parent folder of `path`. If that fails, the message names the file.
HeldFolder folder_of(const std::string& path) {
    make_folder_of(path);
    const size_t slash = path.rfind('/');
    const std::string parent = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    const Descriptor there(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!there.valid()) cannot_write(path);
    return HeldFolder(parent, HeldFolder::IfLink::follow);
}

}  // namespace

HeldPlace::HeldPlace(const std::string& path)
    : folder_(folder_of(path)), name_(path.substr(path.rfind('/') + 1)), shown_(path) {}

}  // namespace convoy
