// oneDNN primitives as launches. Operands lie at fixed addresses, or in temporary memory that the
// op uses only while it runs. The temporary block may grow while programs are built, so each run
// looks up its address.
#pragma once
#include <dnnl.hpp>

#include "backend/backend.h"
#include "base/memory_budget.h"

namespace convoy::cpu {

/// One block, as large as the most that any op needs while it runs.
struct Temporary {
    MemoryBudget& budget;  // the backend's
    Buffer block{};
    size_t bytes = 0;
    char* at(size_t offset) const { return static_cast<char*>(block.get()) + offset; }
};

using Desc = dnnl::memory::desc;

dnnl::memory::data_type dnnl_type(DType);
/// Describes row-major [n, h, w, c], whose dimensions are n, c, h, w in oneDNN.
Desc nhwc(const Tensor&);
/// Describes a weight tensor [out, kh, kw, in], whose dimensions are out, in, kh, kw in oneDNN.
Desc ohwi(const Tensor&);
/// Returns the same dimensions and layout with elements of another type.
Desc of_type(const Desc&, DType);
/// Returns the same dimensions in a layout that the primitive chooses.
Desc any_layout(const Desc&);
Desc matrix(int rows, int columns, DType, bool transposed = false);

/// The primitives of one op in one direction, in order. They share the temporary block.
class Calls {
public:
    Calls(dnnl::engine, dnnl::stream, std::shared_ptr<Temporary>);

    struct Operand {
        int argument;
        dnnl::memory memory;
        bool temporary;
        size_t offset;
    };
    Operand fixed(int argument, const Desc&, void* data) const;
    /// Reserves part of the temporary block. Parts of one op do not overlap.
    Operand temporary(int argument, const Desc&);
    /// Reserves bytes of the temporary block. Returns their offset, for add(offset, run).
    size_t reserve(size_t bytes);
    /// Views a tensor as a matrix with `columns` columns, optionally transposed. If its type is not
    /// `type`, it is converted into a temporary.
    Operand matrix_of(int argument, const Tensor&, int columns, DType type = DType::f32, bool transposed = false);
    /// Returns `operand` if it is as `wanted`; otherwise a temporary that a reorder fills first.
    Operand as_layout(Operand, const Desc& wanted);

    /// Adds a primitive. `scratchpad` may be empty (size 0).
    void add(dnnl::primitive, std::vector<Operand>, const Desc& scratchpad = {});
    /// Adds a GEMM: to = (or +=, if `add`) left * right. The arguments are SRC, WEIGHTS and DST.
    void multiply(Operand left, Operand right, Operand to, bool add = false);
    /// Adds a call of run() with the address of `offset` in the temporary block.
    void add(size_t offset, std::function<void(void*)> run);
    /// Adds a reorder from one operand to another.
    void copy(Operand from, Operand to);
    /// Returns the operand into which a primitive writes a result for `to`. It is `to` itself, or a
    /// temporary if the type differs or `add` is set; deliver() then moves it to `to`.
    Operand target(int argument, const Tensor& to, const Desc& wanted, bool add);
    /// Adds a call that converts target()'s temporary and writes it to `to`, or adds it if `add`.
    /// Does nothing if target() returned `to` itself.
    void deliver(Operand from, const Tensor& to, bool add);

    static dnnl::primitive_attr attributes();  ///< request a user-provided scratchpad

    /// Ends the list: appends one launch that runs all of it.
    void onto(Tape&, LaunchId);

private:
    dnnl::engine engine_;
    dnnl::stream stream_;
    std::shared_ptr<Temporary> block_;
    size_t used_ = 0;
    std::vector<std::function<void()>> calls_;
};

}  // namespace convoy::cpu
