// oneDNN primitives as tape steps. Operands lie either at fixed addresses or in temporary memory
// that belongs to the op while it runs; the temporary block grows while programs are built, so its
// address is looked up at every run.
#pragma once
#include <dnnl.hpp>

#include "backend/backend.h"
#include "base/memory_budget.h"

namespace convoy::cpu {

/// One block as large as the most that any op needs for itself.
struct Temporary {
    MemoryBudget& budget;  // of the backend
    Buffer block{};
    size_t bytes = 0;
    char* at(size_t offset) const { return static_cast<char*>(block.get()) + offset; }
};

using Desc = dnnl::memory::desc;

dnnl::memory::data_type dnnl_type(DType);
/// Row-major [n, h, w, c], which oneDNN describes with dimensions n, c, h, w.
Desc nhwc(const Tensor&);
/// A weight tensor [out, kh, kw, in], which oneDNN describes with dimensions out, in, kh, kw.
Desc ohwi(const Tensor&);
/// The same dimensions and layout with elements of another type.
Desc of_type(const Desc&, DType);
/// The same dimensions in the layout that the primitive chooses.
Desc any_layout(const Desc&);
Desc matrix(int rows, int columns, DType, bool transposed = false);

/// The primitives of one op in one direction, in order, sharing the temporary block.
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
    /// Reserves a part of the temporary block; offsets of one op do not overlap.
    Operand temporary(int argument, const Desc&);
    /// Reserves bytes of the temporary block, which run() hands over as a pointer.
    size_t reserve(size_t bytes);
    /// A tensor as a matrix of `columns` columns of `type`, converted into a temporary if it is of
    /// another; transposed on request.
    Operand matrix_of(int argument, const Tensor&, int columns, DType type = DType::f32, bool transposed = false);
    /// `operand` as it is, or a temporary of layout and type `wanted`, which a reorder fills first.
    Operand as_layout(Operand, const Desc& wanted);

    /// `scratchpad` may be empty (size 0).
    void add(dnnl::primitive, std::vector<Operand>, const Desc& scratchpad = {});
    /// to = (or +=, if `add`) left * right: matrices that are the arguments SRC, WEIGHTS and DST.
    void multiply(Operand left, Operand right, Operand to, bool add = false);
    /// Calls run(the temporary block at `offset`).
    void add(size_t offset, std::function<void(void*)> run);
    /// A reorder from one operand to another.
    void copy(Operand from, Operand to);
    /// Where a primitive writes what belongs in `to`, as `wanted`: there, or, if the type differs
    /// or `add` is set, into a temporary that deliver() puts there.
    Operand target(int argument, const Tensor& to, const Desc& wanted, bool add);
    /// After the primitive: adds (`add`) or converts a temporary into `to`; nothing if the
    /// primitive wrote there.
    void deliver(Operand from, const Tensor& to, bool add);

    static dnnl::primitive_attr attributes();  ///< user scratchpad

    /// Ends the list: one tape step that runs all of it.
    void onto(Tape&, StepId);

private:
    dnnl::engine engine_;
    dnnl::stream stream_;
    std::shared_ptr<Temporary> block_;
    size_t used_ = 0;
    std::vector<std::function<void()>> calls_;
};

}  // namespace convoy::cpu
