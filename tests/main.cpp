// Starts MPI once for all tests: backends need a Comm, here of one rank. Tests on several ranks
// start mpirun themselves.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <string>

#include "tests/support/test_comm.h"

namespace {
convoy::Comm* the_comm = nullptr;

/// Returns the processor time that this process and its children have used so far [seconds].
double processor_seconds() {
    double seconds = 0;
    for (const int whose : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
        rusage used{};
        getrusage(whose, &used);
        for (const timeval& t : {used.ru_utime, used.ru_stime}) seconds += double(t.tv_sec) + 1e-6 * double(t.tv_usec);
    }
    return seconds;
}

/// Adds the processor time to each test's report [seconds].
class ProcessorTime : public testing::EmptyTestEventListener {
    void OnTestStart(const testing::TestInfo&) override { start_ = processor_seconds(); }
    void OnTestEnd(const testing::TestInfo&) override {
        testing::Test::RecordProperty("processor_seconds", std::to_string(processor_seconds() - start_));
    }
    double start_ = 0;
};

}  // namespace

convoy::Comm& convoy::test_comm() { return *the_comm; }

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    convoy::Comm comm(&argc, &argv);
    the_comm = &comm;
    testing::UnitTest::GetInstance()->listeners().Append(new ProcessorTime);  // takes ownership
    return RUN_ALL_TESTS();
}
