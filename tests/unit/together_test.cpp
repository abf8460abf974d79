// Exceptions on one rank, at a place where all ranks agree on the outcome.
#include <gtest/gtest.h>

#include <filesystem>
#include <new>
#include <system_error>

#include "tests/support/support.h"
#include "tests/support/test_comm.h"

namespace convoy::test {
namespace {

template <class Exception> std::string problem(Exit code, const std::string& word, const Exception& exception) {
    return problem_of_error(code, {word}, [&] { test_comm().together([&] { throw exception; }); });
}

std::system_error error_of(std::errc code) { return std::system_error(std::make_error_code(code)); }

TEST(Together, MissingMemoryOfEveryKindIsExitCodeSeven) {
    static_assert(int(Exit::out_of_memory) == 7);
    EXPECT_EQ("", problem(Exit::out_of_memory, "out of memory", std::bad_alloc()));
    EXPECT_EQ("", problem(Exit::out_of_memory, "out of memory", error_of(std::errc::not_enough_memory)));
    EXPECT_EQ("", problem(Exit::out_of_memory, "out of memory", error_of(std::errc::resource_unavailable_try_again)))
        << "as std::thread has it";
}

TEST(Together, OtherErrorsKeepTheirMeaning) {
    EXPECT_EQ("", problem(Exit::bad_input, "a file: is damaged", Error(Exit::bad_input, "a file: is damaged")));
    const std::filesystem::filesystem_error no_room("rename", "here",
                                                    std::make_error_code(std::errc::no_space_on_device));
    EXPECT_EQ("", problem(Exit::io, "here", no_room));
    const auto together = [](const auto& exception) { test_comm().together([&] { throw exception; }); };
    EXPECT_THROW(together(error_of(std::errc::permission_denied)), std::system_error);
    EXPECT_THROW(together(std::logic_error("a mistake of ours")), std::logic_error);
    EXPECT_NO_THROW(test_comm().together([] {}));
}

}  // namespace
}  // namespace convoy::test
