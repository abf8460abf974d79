// The folders that a run writes to. They are opened once, and files there are written, renamed and
// removed through the descriptors of the folders. Another process may replace the paths meanwhile.
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
    /// Does not open the folders yet.
    RunFiles(const std::string& run_dir);

    /// The path of the run folder, as the user gave it.
    const std::string& path() const;
    /// Returns the run folder. Makes it if it is missing or was removed. Throws Exit::io, also if
    /// RUN/checkpoints is a link of another user, or leads into another run.
    HeldFolder run() const;
    /// Returns RUN/checkpoints. Makes it if it is not there or was removed. Throws Exit::io.
    HeldFolder checkpoints() const;
    /// If RUN/checkpoints is a link, notes in that folder that it is for this run. Throws Exit::io
    /// if it is for another one.
    void claim_checkpoints() const;
    /// Returns RUN/checkpoints; nothing if there is no such folder. Throws Exit::io, and
    /// Inaccessible if it cannot be opened.
    std::optional<HeldFolder> checkpoints_if_any() const;
    HeldPlace place(const std::string& name) const { return {run(), name}; }

    /// Returns notes for the user when a run starts: which folders are links, and to where.
    std::vector<std::string> notes() const;
    /// Returns lines about folders whose paths now lead elsewhere, found since the last call. Each
    /// folder is reported once.
    std::vector<std::string> moved() const;

private:
    struct Folders;
    std::shared_ptr<Folders> folders_;
};

}  // namespace convoy
