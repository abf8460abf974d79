// Starts MPI once for all tests: backends need a Comm, here of one rank. Tests of several ranks
// start mpirun themselves.
#include <gtest/gtest.h>

#include "tests/support/test_comm.h"

namespace {
convoy::Comm* the_comm = nullptr;
}

convoy::Comm& convoy::test_comm() { return *the_comm; }

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    convoy::Comm comm(&argc, &argv);
    the_comm = &comm;
    return RUN_ALL_TESTS();
}
