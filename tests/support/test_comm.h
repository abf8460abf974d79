// The one-rank Comm that all tests of this process share.
#pragma once
#include "comm/comm.h"

namespace convoy {

Comm& test_comm();

}  // namespace convoy
