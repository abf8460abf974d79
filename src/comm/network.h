// The network cards of this host, as its kernel describes them.
#pragma once
#include <string>

namespace convoy {

/// Lists the network cards that are up, InfiniBand and RoCE ports first: "mlx5_0 400 Gb/sec (4X
/// NDR), eth0 10 Gb/s". Returns "none" if there are none. `sys` is the mount point of sysfs.
std::string network_cards(const std::string& sys = "/sys");

/// Lists only the InfiniBand and RoCE ports that are up; empty if there are none.
std::string verbs_ports(const std::string& sys = "/sys");

}  // namespace convoy
