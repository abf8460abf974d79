// The network cards of this host, as its kernel describes them.
#pragma once
#include <string>

namespace convoy {

/// "mlx5_0 400 Gb/sec (4X NDR), eth0 10 Gb/s": InfiniBand and RoCE ports that are up, then other
/// cards that are; "none" if there are none. `sys` is where sysfs is.
std::string network_cards(const std::string& sys = "/sys");

/// Only the InfiniBand and RoCE ports that are up; empty if there are none.
std::string verbs_ports(const std::string& sys = "/sys");

}  // namespace convoy
