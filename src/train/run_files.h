// The folders that a run writes to. They are opened once, and everything that is written, renamed
// and removed there goes through those descriptors: others may exchange the paths meanwhile.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/held_place.h"

namespace convoy {

/// RUN and RUN/checkpoints. Copies share the open folders; any thread may use them. RUN may be a
/// link of this user or root, and so may RUN/checkpoints.
class RunFiles {
public:
    /// Opens nothing yet.
    RunFiles(const std::string& run_dir);

    /// The path of the run folder, as the user gave it.
    const std::string& path() const;
    /// Returns the run folder. Makes it if it is not there or was removed. Throws Exit::io; also
    /// where RUN/checkpoints is a link of another user, or leads into another run.
    HeldFolder run() const;
    /// Returns RUN/checkpoints. Makes it if it is not there or was removed. Throws Exit::io.
    HeldFolder checkpoints() const;
    /// Returns RUN/checkpoints; nothing if there is no such folder. Throws Exit::io, and
    /// Inaccessible if it cannot be opened.
    std::optional<HeldFolder> checkpoints_if_any() const;
    HeldPlace place(const std::string& name) const { return {run(), name}; }

    /// Returns what people should know of the folders when a run starts, in lines.
    std::vector<std::string> notes() const;
    /// Returns what was found since the last call: folders whose paths lead elsewhere now. Each is
    /// named once.
    std::vector<std::string> moved() const;

private:
    struct Folders;
    std::shared_ptr<Folders> folders_;
};

}  // namespace convoy
