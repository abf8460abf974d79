#include "accept/devices.h"

namespace convoy {

std::unique_ptr<Backend> backend_for(Comm& group, const DeviceChoice& choice, bool invariant, int threads) {
    BackendOptions o;
    o.threads = threads > 0 ? threads : choice.threads;
    o.invariant = invariant;
    o.bind = false;  // the backend of all ranks has bound this rank already
    o.tune_seconds = 0;
    o.share_device = choice.share;
    for (const std::string& gpu : group.gather_node(std::to_string(choice.gpu))) o.devices.push_back(std::stoi(gpu));
    if (choice.device == "cpu") o.devices.clear();
    return make_backend(choice.device, o, group);
}

}  // namespace convoy
