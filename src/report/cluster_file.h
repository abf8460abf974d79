#pragma once
#include "plan/cluster.h"
namespace convoy {
Cluster read_cluster(const std::string& path);
}
