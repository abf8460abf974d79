// tests/kernels/sass.py on hand-written machine code, with a cuobjdump that prints it.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/support.h"

namespace convoy::test {
namespace {

// Machine code with two loops. The second one loads two rows, a vector each, before their first
// use, and another vector after it. There is also a load outside of loops, and a spilled register.
constexpr const char* code = R"(
		Function : _ZN6convoy7kernels4copyI6__halfEEvv
        /*0000*/                   LDG.E.128 R40, desc[UR6][R2.64] ;    /* 0x0 */
        /*0010*/                   LDG.E R4, desc[UR6][R2.64] ;         /* 0x0 */
        /*0020*/               @P0 BRA 0x10 ;                           /* 0x0 */
        /*0030*/                   STL [R1], R9 ;                       /* 0x0 */
        /*0040*/                   LDG.E.128 R4, desc[UR6][R2.64] ;     /* 0x0 */
        /*0050*/                   IADD3 R3, R3, 0x10, RZ ;             /* 0x0 */
        /*0060*/              @!P1 LDG.E.128 R8, desc[UR6][R2.64] ;     /* 0x0 */
        /*0070*/                   FADD R20, R21, R11 ;                 /* 0x0 */
        /*0080*/                   LDG.E.128 R12, desc[UR6][R2.64] ;    /* 0x0 */
        /*0090*/                   STG.E.128 desc[UR6][R2.64], R12 ;    /* 0x0 */
        /*00a0*/               @P0 BRA 0x40 ;                           /* 0x0 */
        /*00b0*/                   BRA 0xb0 ;                           /* 0x0 */
)";
constexpr const char* usage = R"(
 Function _ZN6convoy7kernels4copyI6__halfEEvv:
  REG:96 STACK:8 SHARED:1024 LOCAL:0 CONSTANT[0]:664 TEXTURE:0 SURFACE:0 SAMPLER:0
)";

std::string printed(const std::string& cuda, const std::string& object) {
    const Finished f = run("CUDA=" + cuda + " ${PYTHON:-/usr/bin/python3} -B tests/kernels/sass.py " + object);
    EXPECT_EQ(f.code, 0) << f.err;
    return f.out;
}

// 96 registers are 12 units of 256 per warp: two blocks of eight warps fit in 65,536 registers. 2 x
// 256 threads with 2 x 16 bytes each are 16 KiB.
TEST(KernelSass, CountsRegistersAndLoadsInFlight) {
    const TempDir dir;
    write_file(dir.path("code"), code);
    write_file(dir.path("usage"), usage);
    write_file(dir.path("bin/cuobjdump"), "#!/bin/sh\n[ \"$1 $2\" = '-arch sm_90' ] || exit 1\ncd " + dir.path() +
                                              "\n[ \"$3\" = --dump-sass ] && cat code || cat usage\n");
    std::filesystem::permissions(dir.path("bin/cuobjdump"), std::filesystem::perms::owner_all);
    const std::string out = printed(dir.path(), "any.o");
    EXPECT_NE(out.find("\n| copy<f16> | 96 | 1 | 2 | 3 of 16 bytes | 2 | 16 |\n"), std::string::npos) << out;
}

TEST(KernelSass, SaysInOneLineThatThereIsNoToolkit) {
    const Finished f = run("CUDA=/nowhere PATH=/nowhere ${PYTHON:-/usr/bin/python3} -B tests/kernels/sass.py any.o");
    EXPECT_EQ(f.code, 0) << f.err;
    EXPECT_EQ(f.out.find("skipped: no cuobjdump in /nowhere/bin"), 0u) << f.out;
    EXPECT_EQ(f.out.find('\n') + 1, f.out.size());
}

}  // namespace
}  // namespace convoy::test
