// Runs the ops of a small graph on any backend and returns their results as vectors. All data goes
// through upload and download. Uninitialised memory holds NaN, so elements that an op forgets to
// write are found.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/bf16.h"

namespace convoy::test {

using Floats = std::vector<float>;

/// Returns the devices that tests run on: cpu, and cuda if there is one.
std::vector<std::string> test_devices();
/// Returns true if CPU ranks can have values in bf16 here.
bool has_bf16();
/// Returns a backend of two threads on the process's one-rank Comm. Convolutions on CPUs run the
/// algorithm `by` if they can.
std::unique_ptr<Backend> make_test_backend(const std::string& device, ConvBy by = ConvBy::measured);
/// Returns a backend that all tests of this process share, because making one takes longer than
/// most tests of ops. Outside f32, a GPU runs batch norms by our kernels, and times nothing.
Backend& shared_backend(const std::string& device, ConvBy by = ConvBy::measured, Precision = Precision::f32);

/// Returns memory on the backend that holds a copy of `values`.
template <class T> Buffer upload(Backend& backend, const std::vector<T>& values) {
    Buffer buffer = backend.allocate(values.size() * sizeof(T));
    backend.upload(buffer.get(), values.data(), values.size() * sizeof(T));
    return buffer;
}
template <class T> std::vector<T> download(Backend& backend, const void* from, size_t count) {
    std::vector<T> values(count);
    backend.download(values.data(), from, count * sizeof(T));
    return values;
}
/// Returns the nearest values of that type.
Floats rounded(DType, Floats);
/// Copy to and from a tensor of any floating-point type. The padding channels are left out; put()
/// sets them to zero.
void put(Backend&, const Tensor&, const Floats&);
Floats get(Backend&, const Tensor&);
/// Finishes a tape, runs it once and waits for it.
void run_tape(Backend&, Tape);

/// Settings that ops are bound to besides tensors.
struct OpSetting {
    bool training = true;
    int64_t global_batch = 0;  ///< 0: equals the batch
    int64_t first = 0;
    uint64_t seed = 7;
    int64_t step = 0;
};

/// One graph bound to separate memory; each value has at most one reader.
class OpHarness {
public:
    OpHarness(Backend&, const Graph&, int batch, OpSetting = {});

    void set_value(ValueId id, const Floats& v) { put(backend_, values_[id], v); }
    void set_gradient(ValueId id, const Floats& v) { put(backend_, value_gradients_[id], v); }
    void set_param(ParamId id, const Floats& v) { put(backend_, params_[id], v); }
    void set_labels(const std::vector<int32_t>&);
    /// Sets a second label per image; the labels of set_labels() have these shares.
    void set_mixed(const std::vector<int32_t>& partners, const Floats& shares);
    /// Makes backward add to the gradient of this value.
    void accumulate(ValueId id) {
        for (std::vector<bool>& of_op : gradients_.accumulate) of_op[id] = true;
    }
    /// Makes the gradient of this value unwanted.
    void unwanted(ValueId id) {
        value_gradients_[id].data = nullptr;
        gradients_.wanted[id] = false;
    }

    void forward();   ///< all ops in order
    void backward();  ///< all ops in reverse order

    Floats value(ValueId id) const { return get(backend_, values_[id]); }
    Floats gradient(ValueId id) const { return get(backend_, value_gradients_[id]); }
    Floats param(ParamId id) const { return get(backend_, params_[id]); }
    Floats param_gradient(ParamId id) const { return get(backend_, param_gradients_[id]); }
    BatchStats stats() const;

private:
    Tensor allocate(Shape, DType = DType::f32, int padding = 0);
    /// Allocates what the backend keeps from forward to backward; called before the first run.
    void select();
    OpArguments arguments(size_t op) const;

    Backend& backend_;
    const Graph& graph_;
    OpSetting setting_;
    int batch_;
    GradientFlow gradients_;
    std::shared_ptr<const Algorithms> algorithms_;
    std::vector<Buffer> buffers_;
    std::vector<void*> saved_;  // by op
    std::vector<Tensor> values_, value_gradients_, params_, param_gradients_;
    Tensor labels_;
    MixedLabels mixed_;
    Buffer stats_, counters_;
};

}  // namespace convoy::test
