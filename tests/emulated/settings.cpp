// Settings of the emulated device in the environment.
#include <cstdlib>

#include "tests/emulated/cuda.h"

namespace convoy::test {

bool is_left_out(double threads) {
    const char* most = std::getenv("EMULATED_MOST_THREADS");
    return most && threads > std::atof(most);
}

int claimed_capability() {
    const char* claimed = std::getenv("EMULATED_CAPABILITY");
    return claimed ? std::atoi(claimed) : 90;
}

}  // namespace convoy::test
