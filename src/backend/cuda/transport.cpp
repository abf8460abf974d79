#include "backend/cuda/transport.h"

#include <cctype>
#include <sstream>

namespace convoy::cuda {

std::set<std::string> transports_of(const std::string& log) {
    // "host:pid:tid [0] NCCL INFO Channel 07/0 : 0[0] -> 2[0] [receive] via NET/IB/3/GDRDMA"
    std::set<std::string> found;
    std::istringstream lines(log);
    for (std::string line; std::getline(lines, line);) {
        const size_t via = line.find(" via ");
        if (via == std::string::npos || line.find(" Channel ") == std::string::npos) continue;
        std::istringstream parts(line.substr(via + 5));
        std::string name;
        for (std::string part; std::getline(parts, part, '/');)
            if (part.empty() || !std::isdigit(static_cast<unsigned char>(part[0])))
                name += (name.empty() ? "" : "/") + part;
        found.insert(name);
    }
    return found;
}

std::string socket_warning(const std::string& transports, const std::string& ports) {
    if (transports.find("NET/Socket") == std::string::npos || ports.empty()) return "";
    return "NCCL sums over sockets (NET/Socket) although there is " + ports +
           "; see jobs/site/infiniband.env.example for what to set, and NCCL_DEBUG=INFO for its reason";
}

}  // namespace convoy::cuda
