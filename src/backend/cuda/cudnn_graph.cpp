#include "backend/cuda/cudnn_graph.h"

#include <cudnn_frontend.h>

#include <algorithm>

#include "backend/cuda/cudnn_text.h"

static_assert(CUDNN_FRONTEND_VERSION < 11800 || CUDNN_FRONTEND_VERSION > 13200,
              "cudnn-frontend 1.18 to 1.32 asks for sums in a wrong type: run make deps, or set CUDNN_FRONTEND to "
              "another version");

namespace convoy::cuda {
namespace fe = cudnn_frontend;
namespace fg = fe::graph;
using Node = std::shared_ptr<fg::Tensor_attributes>;

struct Cudnn::Native {
    cudnnHandle_t handle = nullptr;                    // null for an absent chip
    std::shared_ptr<fe::DeviceProperties> properties;  // null if cuDNN does not report them
    ~Native() {
        if (handle) cudnnDestroy(handle);
    }
};

Cudnn::Cudnn() : native_(std::make_unique<Native>()) {}
Cudnn::~Cudnn() = default;
Cudnn::Cudnn(Cudnn&&) noexcept = default;

Cudnn::Cudnn(cudaStream_t stream) : Cudnn() {
    cudnnStatus_t status = cudnnCreate(&native_->handle);
    if (status == CUDNN_STATUS_SUCCESS) status = cudnnSetStream(native_->handle, stream);
    if (status != CUDNN_STATUS_SUCCESS)
        fail(Exit::usage, "cuDNN " + version() + " cannot use this GPU: " + cudnnGetErrorString(status));
    int device = 0;
    cudaGetDevice(&device);
    auto properties = std::make_shared<fe::DeviceProperties>();
    if (properties->set_device_id(device).build().is_good()) native_->properties = std::move(properties);
}

Cudnn Cudnn::of_chip(const std::string& description) {
    Cudnn c;
    c.native_->properties = std::make_shared<fe::DeviceProperties>();
    fe::error_t e = c.native_->properties->deserialize(std::vector<uint8_t>(description.begin(), description.end()));
    if (e.is_bad())
        fail(Exit::usage, "cuDNN " + version() + " does not take the description of the chip: " + e.get_message());
    return c;
}

std::string Cudnn::description(int device) {
    fe::DeviceProperties properties;
    fe::error_t e = properties.set_device_id(device).build();
    std::vector<uint8_t> text;
    if (e.is_good()) e = properties.serialize(text);
    if (e.is_bad()) fail(Exit::usage, "cuDNN " + version() + " does not describe this GPU: " + e.get_message());
    return {text.begin(), std::find(text.begin(), text.end(), uint8_t(0))};
}

std::string Cudnn::version() {
    const size_t v = cudnnGetVersion();
    return std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." + std::to_string(v % 100);
}

namespace {

fe::DataType_t fe_type(DType type) {
    switch (type) {
        case DType::f16: return fe::DataType_t::HALF;
        case DType::bf16: return fe::DataType_t::BFLOAT16;
        default: return fe::DataType_t::FLOAT;
    }
}

/// Builds the graph of a spec. cuDNN orders dimensions n, c, h, w; by its stride, c varies fastest.
class Builder {
public:
    Builder(fg::Graph& graph, const PlanSpec& spec) : g_(graph), s_(spec) {}

    void build() {
        switch (s_.kind) {
            case PlanSpec::conv: return conv();
            case PlanSpec::conv_data_gradient: return data_gradient();
            case PlanSpec::conv_weight_gradient: return weight_gradient();
            case PlanSpec::norm: return norm();
            case PlanSpec::norm_gradient: return norm_gradient();
        }
    }

private:
    using Dims = std::vector<int64_t>;
    static Dims dims(const Shape& s) { return {s.n, s.c, s.h, s.w}; }
    static Dims strides(const Shape& s) { return {int64_t(s.h) * s.w * s.c, 1, int64_t(s.w) * s.c, s.c}; }

    Node input(Slot slot, const Shape& shape, DType type) {
        return g_.tensor(fg::Tensor_attributes()
                             .set_name(name_of(slot))
                             .set_uid(int64_t(slot))
                             .set_dim(dims(shape))
                             .set_stride(strides(shape))
                             .set_data_type(fe_type(type)));
    }
    void output(const Node& node, Slot slot, const Shape& shape, DType type) {
        node->set_output(true)
            .set_name(name_of(slot))
            .set_uid(int64_t(slot))
            .set_dim(dims(shape))
            .set_stride(strides(shape))
            .set_data_type(fe_type(type));
    }
    Shape vector() const { return {1, 1, 1, s_.x.c}; }
    Shape weight() const { return {s_.y.c, s_.kernel, s_.kernel, s_.x.c}; }
    Node per_channel(Slot slot) { return input(slot, vector(), DType::f32); }
    void per_channel(const Node& node, Slot slot) { output(node, slot, vector(), DType::f32); }
    template <class Attributes> Attributes window() const {
        return Attributes().set_padding({s_.pad, s_.pad}).set_stride({s_.stride, s_.stride}).set_dilation({1, 1});
    }
    Node pointwise(const Node& a, const Node& b, fe::PointwiseMode_t mode) {
        return g_.pointwise(a, b, fg::Pointwise_attributes().set_mode(mode));
    }

    /// Returns x, normalised if the spec says so. Engines that normalise need x's type everywhere.
    Node source() {
        Node x = input(Slot::x, s_.x, s_.type);
        if (!s_.normalise) return x;
        x = pointwise(x, input(Slot::scale, vector(), s_.type), fe::PointwiseMode_t::MUL);
        x->set_data_type(fe_type(s_.type));
        x = pointwise(x, input(Slot::bias, vector(), s_.type), fe::PointwiseMode_t::ADD);
        x->set_data_type(fe_type(s_.type));
        x = g_.pointwise(x, fg::Pointwise_attributes().set_mode(fe::PointwiseMode_t::RELU_FWD));
        x->set_data_type(fe_type(s_.type));
        return x;
    }

    void conv() {
        const Node y =
            g_.conv_fprop(source(), input(Slot::weight, weight(), s_.type), window<fg::Conv_fprop_attributes>());
        output(y, Slot::y, s_.y, s_.type);
        if (!s_.statistics) return;
        auto [sum, squares] = g_.genstats(y, fg::Genstats_attributes());
        for (const auto& [node, slot] : {std::pair{sum, Slot::sum}, {squares, Slot::squares}})
            output(node, slot, {1, 1, 1, s_.y.c}, DType::f32);
    }

    void data_gradient() {
        Node dx = g_.conv_dgrad(input(Slot::dy, s_.y, s_.type), input(Slot::weight, weight(), s_.type),
                                window<fg::Conv_dgrad_attributes>());
        dx->set_dim(dims(s_.x)).set_stride(strides(s_.x));
        if (s_.add) dx = pointwise(dx, input(Slot::residual, s_.x, s_.type), fe::PointwiseMode_t::ADD);
        if (s_.statistics) dx = masked(dx);
        output(dx, Slot::dx, s_.x, s_.type);
    }

    /// Masks dx by the ReLU of the batch norm that wrote x, and outputs that norm's gradient sums.
    Node masked(const Node& dx) {
        const Node x = input(Slot::x, s_.x, s_.type), mean = per_channel(Slot::mean),
                   invstd = per_channel(Slot::invstd), scale = per_channel(Slot::scale);
        Node seen = pointwise(x, mean, fe::PointwiseMode_t::SUB);
        seen = pointwise(seen, invstd, fe::PointwiseMode_t::MUL);
        seen = pointwise(seen, scale, fe::PointwiseMode_t::MUL);
        seen = pointwise(seen, per_channel(Slot::bias), fe::PointwiseMode_t::ADD);
        const Node g = pointwise(dx, seen, fe::PointwiseMode_t::RELU_BWD);
        auto [dscale, dbias, dy_factor, x_factor, offset] =
            g_.dbn_weight(g, x, mean, invstd, scale, fg::DBN_weight_attributes());
        per_channel(dscale, Slot::dscale);
        per_channel(dbias, Slot::dbias);
        per_channel(dy_factor, Slot::dy_factor);
        per_channel(x_factor, Slot::x_factor);
        per_channel(offset, Slot::offset);
        return g;
    }

    void weight_gradient() {
        const Node dw = g_.conv_wgrad(input(Slot::dy, s_.y, s_.type), source(), window<fg::Conv_wgrad_attributes>());
        output(dw, Slot::dweight, weight(), s_.type);
    }

    void norm() {
        Node epsilon = g_.tensor(s_.epsilon), momentum = g_.tensor(s_.momentum);
        epsilon->set_name("epsilon");
        momentum->set_name("momentum");
        Node running_mean = per_channel(Slot::running_mean), running_var = per_channel(Slot::running_var);
        auto attributes = fg::Batchnorm_attributes().set_epsilon(epsilon).set_previous_running_stats(
            running_mean, running_var, momentum);
        auto [y, mean, invstd, next_mean, next_var] =
            g_.batchnorm(input(Slot::x, s_.x, s_.type), per_channel(Slot::scale), per_channel(Slot::bias), attributes);
        per_channel(mean, Slot::mean);
        per_channel(invstd, Slot::invstd);
        per_channel(next_mean, Slot::next_mean);
        per_channel(next_var, Slot::next_var);
        Node out = y;
        if (s_.add) out = pointwise(out, input(Slot::residual, s_.x, s_.type), fe::PointwiseMode_t::ADD);
        if (s_.relu) out = g_.pointwise(out, fg::Pointwise_attributes().set_mode(fe::PointwiseMode_t::RELU_FWD));
        output(out, Slot::y, s_.x, s_.type);
    }

    void norm_gradient() {
        const Node x = input(Slot::x, s_.x, s_.type), scale = per_channel(Slot::scale), mean = per_channel(Slot::mean),
                   invstd = per_channel(Slot::invstd);
        Node dy = input(Slot::dy, s_.x, s_.type);
        if (s_.relu) {
            const Node seen = g_.batchnorm_inference(x, mean, invstd, scale, per_channel(Slot::bias),
                                                     fg::Batchnorm_inference_attributes());
            dy = pointwise(dy, seen, fe::PointwiseMode_t::RELU_BWD);
            dy->set_data_type(fe_type(s_.type));
        }
        auto [dx, dscale, dbias] = g_.batchnorm_backward(
            dy, x, scale, fg::Batchnorm_backward_attributes().set_saved_mean_and_inv_variance(mean, invstd));
        output(dx, Slot::dx, s_.x, s_.type);
        per_channel(dscale, Slot::dscale);
        per_channel(dbias, Slot::dbias);
    }

    fg::Graph& g_;
    const PlanSpec& s_;
};

class NotedGraph : public fg::Graph {
public:
    /// Returns the indices, in cuDNN's order, of the plans without these notes. Builds no plan.
    std::vector<int> plans_without(const std::vector<fe::NumericalNote_t>& notes) const {
        std::vector<int> found;
        for (const auto& has : plans.numeric_notes)
            if (std::find_first_of(has.begin(), has.end(), notes.begin(), notes.end()) == has.end())
                found.push_back(int(&has - plans.numeric_notes.data()));
        return found;
    }
};

}  // namespace

struct CudnnGraph::Native {
    const Cudnn::Native& cudnn;
    NotedGraph graph;
    std::vector<int> candidates;  // indices of cuDNN's plans
    std::string reason;

    int64_t plan(int candidate) const { return candidates.at(size_t(candidate)); }

    /// Builds the graph. `handle`: null to build with the device's properties.
    fe::error_t make(const PlanSpec& spec, cudnnHandle_t handle) {
        if (!handle) graph.set_device_properties(cudnn.properties);
        graph.set_io_data_type(fe_type(spec.type))
            .set_intermediate_data_type(fe::DataType_t::FLOAT)
            .set_compute_data_type(fe::DataType_t::FLOAT);
        if (spec.multiprocessors > 0) graph.set_sm_count(spec.multiprocessors);
        Builder(graph, spec).build();
        fe::error_t e = graph.validate();
        if (e.is_good()) e = handle ? graph.build_operation_graph(handle) : graph.build_operation_graph();
        if (e.is_good()) e = graph.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK});
        if (e.is_bad()) return e;
        // Repeating a run must give the same bits, and exact specs must be computed in full f32.
        std::vector<fe::NumericalNote_t> unwanted = {fe::NumericalNote_t::NONDETERMINISTIC};
        if (spec.exact)
            unwanted.insert(unwanted.end(), {fe::NumericalNote_t::TENSOR_CORE, fe::NumericalNote_t::DOWN_CONVERT_INPUTS,
                                             fe::NumericalNote_t::REDUCED_PRECISION_REDUCTION,
                                             fe::NumericalNote_t::WINOGRAD, fe::NumericalNote_t::FFT});
        candidates = graph.plans_without(unwanted);
        return e;
    }
};

CudnnGraph::CudnnGraph(const Cudnn& runs, const PlanSpec& spec, const Cudnn* builds)
    : native_(new Native{runs.native(), {}, {}, ""}) {
    fe::error_t e = native_->make(spec, builds ? builds->native().handle : nullptr);
    if (e.is_bad()) native_->reason = e.get_message();
}
CudnnGraph::~CudnnGraph() = default;
int CudnnGraph::candidates() const { return int(native_->candidates.size()); }
const std::string& CudnnGraph::reason() const { return native_->reason; }

std::string CudnnGraph::name(int candidate) const {
    std::string text;
    (void)native_->graph.get_plan_name_at_index(native_->plan(candidate), text);
    return text;
}

std::string CudnnGraph::text() const {
    nlohmann::json all;
    native_->graph.serialize(all);
    return text_of_graph(all.dump());
}

bool CudnnGraph::compiles(int candidate) const {
    std::vector<fe::BehaviorNote_t> notes;
    (void)native_->graph.get_behavior_notes_for_plan_at_index(native_->plan(candidate), notes);
    return std::find(notes.begin(), notes.end(), fe::BehaviorNote_t::RUNTIME_COMPILATION) != notes.end();
}

bool CudnnGraph::build(int candidate, std::string& why) {
    fe::error_t e = native_->graph.build_plan_at_index(native_->plan(candidate));
    if (e.is_bad()) why = e.get_message();
    return e.is_good();
}

size_t CudnnGraph::workspace(int candidate) const {
    return size_t(native_->graph.get_workspace_size_plan_at_index(native_->plan(candidate)));
}

void CudnnGraph::run(int candidate, const std::vector<std::pair<Slot, void*>>& operands, void* workspace,
                     cudaStream_t stream) const {
    std::unordered_map<int64_t, void*> pack;
    for (const auto& [slot, data] : operands) pack.emplace(int64_t(slot), data);
    if (const cudnnStatus_t status = cudnnSetStream(native_->cudnn.handle, stream); status != CUDNN_STATUS_SUCCESS)
        throw std::runtime_error(std::string("cuDNN cannot use a stream: ") + cudnnGetErrorString(status));
    fe::error_t e =
        native_->graph.execute_plan_at_index(native_->cudnn.handle, pack, workspace, native_->plan(candidate));
    if (e.is_bad()) throw std::runtime_error("cuDNN could not run a plan it had built: " + e.get_message());
}

}  // namespace convoy::cuda
