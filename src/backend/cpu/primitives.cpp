#include "backend/cpu/primitives.h"

#include <cstdlib>
#include <utility>

#include "backend/cpu/rows.h"
#include "backend/out_of_memory.h"
#include "base/memory.h"

namespace convoy::cpu {
namespace {

/// Writes to = from, or to += from.
template <class From, class To> CONVOY_WIDE void put_elements(const From* from, To* to, int64_t n, bool add) {
    if (add) {
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) assign(to[i], to_float(to[i]) + to_float(from[i]));
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) assign(to[i], to_float(from[i]));
    }
}

}  // namespace

bool has_avx512() {
    return (int(dnnl::get_effective_cpu_isa()) & int(dnnl::cpu_isa::avx512_core)) == int(dnnl::cpu_isa::avx512_core);
}

dnnl::memory::data_type dnnl_type(DType type) {
    using T = dnnl::memory::data_type;
    switch (type) {
        case DType::f32: return T::f32;
        case DType::f16: return T::f16;
        case DType::bf16: return T::bf16;
        case DType::u8: return T::u8;
        case DType::i32: return T::s32;
    }
    return T::undef;
}

Desc nhwc(const Tensor& t) {
    const Shape& s = t.shape;
    return {{s.n, s.c, s.h, s.w}, dnnl_type(t.dtype), dnnl::memory::format_tag::nhwc};
}
Desc ohwi(const Tensor& t) {
    const Shape& s = t.shape;
    return {{s.n, s.c, s.h, s.w}, dnnl_type(t.dtype), dnnl::memory::format_tag::ohwi};
}
Desc of_type(const Desc& d, DType type) { return {d.get_dims(), dnnl_type(type), d.get_strides()}; }
Desc any_layout(const Desc& d) { return {d.get_dims(), d.get_data_type(), dnnl::memory::format_tag::any}; }
Desc matrix(int rows, int columns, DType type, bool transposed) {
    using Tag = dnnl::memory::format_tag;
    return {{rows, columns}, dnnl_type(type), transposed ? Tag::ba : Tag::ab};
}

Calls::Calls(dnnl::engine engine, dnnl::stream stream, std::shared_ptr<Temporary> block)
    : engine_(std::move(engine)), stream_(std::move(stream)), block_(std::move(block)) {}

Calls::Operand Calls::fixed(int argument, const Desc& desc, void* data) const {
    return {argument, dnnl::memory(desc, engine_, data), false, 0};
}

size_t Calls::reserve(size_t bytes) {
    constexpr size_t alignment = 4096;
    const size_t offset = used_;
    used_ += (bytes + alignment - 1) / alignment * alignment;
    if (used_ > block_->bytes) {
        block_->block.reset();
        block_->budget.give(std::exchange(block_->bytes, 0));
        const size_t wanted = whole_pages(used_);
        block_->budget.take_or_fail(wanted, "temporary space", "use a smaller batch or fewer ranks per node");
        block_->bytes = wanted;
        block_->block = Buffer(allocate_pages(wanted), std::free);
        if (!block_->block) throw std::bad_alloc();
    }
    return offset;
}

Calls::Operand Calls::temporary(int argument, const Desc& desc) {
    const size_t offset = reserve(desc.get_size());
    return {argument, dnnl::memory(desc, engine_, nullptr), true, offset};
}

Calls::Operand Calls::matrix_of(int argument, const Tensor& t, int columns, DType type, bool transposed) {
    const int rows = int(t.count() / size_t(columns));
    const auto desc = [&](DType of) {
        return transposed ? matrix(columns, rows, of, true) : matrix(rows, columns, of);
    };
    return as_layout(fixed(argument, desc(t.dtype), t.data), desc(type));
}

Calls::Operand Calls::as_layout(Operand operand, const Desc& wanted) {
    if (operand.memory.get_desc() == wanted) return operand;
    Operand other = temporary(operand.argument, wanted);
    copy(operand, other);
    return other;
}

void Calls::copy(Operand from, Operand to) {
    const dnnl::reorder reorder(from.memory, to.memory);
    from.argument = DNNL_ARG_FROM;
    to.argument = DNNL_ARG_TO;
    add(reorder, {from, to});
}

void Calls::add(dnnl::primitive primitive, std::vector<Operand> operands, const Desc& scratchpad) {
    if (scratchpad && scratchpad.get_size() > 0) operands.push_back(temporary(DNNL_ARG_SCRATCHPAD, scratchpad));
    std::unordered_map<int, dnnl::memory> arguments;
    for (const Operand& o : operands) arguments.emplace(o.argument, o.memory);
    calls_.push_back([block = block_, stream = stream_, primitive, operands, arguments] {
        for (const Operand& o : operands)
            if (o.temporary) o.memory.set_data_handle(block->at(o.offset));
        primitive.execute(stream, arguments);
    });
}

void Calls::multiply(Operand left, Operand right, Operand to, bool add_to) {
    dnnl::primitive_attr attr = attributes();
    if (add_to) {
        dnnl::post_ops sum;
        sum.append_sum();
        attr.set_post_ops(sum);
    }
    const dnnl::matmul::primitive_desc pd(engine_, left.memory.get_desc(), right.memory.get_desc(),
                                          to.memory.get_desc(), attr);
    add(dnnl::matmul(pd), {left, right, to}, pd.scratchpad_desc());
}

void Calls::add(size_t offset, std::function<void(void*)> run) {
    calls_.push_back([block = block_, offset, run = std::move(run)] { run(block->at(offset)); });
}

Calls::Operand Calls::target(int argument, const Tensor& to, const Desc& wanted, bool add) {
    if (!add && wanted.get_data_type() == dnnl_type(to.dtype)) return fixed(argument, wanted, to.data);
    return temporary(argument, wanted);
}

void Calls::deliver(Operand from, const Tensor& to, bool add) {
    if (!from.temporary) return;
    const auto put = [&]<class From, class To>(From, To) {
        calls_.push_back([=, block = block_, offset = from.offset, y = to.as<To>(), n = int64_t(to.count())] {
            const auto* x = reinterpret_cast<const From*>(block->at(offset));
            over_rows(omp_get_max_threads(), n,
                      [&](int, int64_t i, int64_t end) { put_elements(x + i, y + i, end - i, add); });
        });
    };
    with_type(to.dtype, [&](auto type) {
        if (from.memory.get_desc().get_data_type() == dnnl_type(DType::f32))
            put(float{}, type);
        else
            put(bf16{}, type);
    });
}

dnnl::primitive_attr Calls::attributes() {
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return attr;
}

void Calls::onto(Tape& tape, LaunchId id) {
    tape.push_back({std::move(id), Resource::compute, [calls = std::move(calls_)] {
                        for (const auto& call : calls) call();
                    }});
}

}  // namespace convoy::cpu

bool convoy::is_out_of_memory(const std::exception& error) {
    const auto* of_onednn = dynamic_cast<const dnnl::error*>(&error);
    return of_onednn && of_onednn->status == dnnl_out_of_memory;
}
