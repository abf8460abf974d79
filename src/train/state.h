// The tensors of a training: parameters, gradients and optimizer state, in arenas with the same
// offsets. The optimizer is therefore one pass, and a gradient bucket is a slice. Parameters lie in
// the order in which backward reaches them; frozen ones come last. The slow weights of look-ahead
// are optimizer state; its slow running statistics follow the running statistics.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "backend/tensor_memory.h"
#include "model/graph.h"
#include "ops/records.h"

namespace convoy {

struct NamedTensor {
    /// "stage1.block0.conv1.weight"; optimizer state has ".velocity" or ".moment1", ".moment2"
    /// appended, or ".slow"
    std::string name;
    Tensor tensor;  ///< on the device
};

/// Host values by ParamId, each in the shape and layout of Graph::params; empty: none.
using ParamValues = std::vector<std::vector<float>>;

/// The treatment of one parameter by the optimizer, in addition to its spec.
struct ParamRule {
    float weight_decay = 0;
    float learning_rate = 1;    ///< factor of the step's learning rate
    int64_t steps = INT64_MAX;  ///< number of steps in which it is trained
    bool muon = false;
};
using ParamRules = std::function<ParamRule(const Param&)>;

/// The tensors that ops read and write besides activations.
struct Operands {
    std::vector<Tensor> params, gradients;  ///< as State::params() and State::gradients()
    float* arena;                           ///< the gradients' arena
    BatchStats *stats, *own;                ///< as State::stats() and State::own_stats()
};

class State {
public:
    /// Allocates everything, zeroed. `optimizer` null: no gradients and no optimizer state, for
    /// evaluation. `replicas`: number of logical ranks; each has separate running statistics.
    State(const Graph&, TensorMemory&, const OptimizerSpec* optimizer, bool look_ahead = false, int replicas = 1);

    const std::vector<Tensor>& params() const { return params_; }  ///< by ParamId
    /// by ParamId; without data for running statistics and frozen parameters
    const std::vector<Tensor>& gradients() const { return gradients_; }
    BatchStats* stats() const { return static_cast<BatchStats*>(gradients_buffer_.get()); }
    /// Returns this rank's part of stats() in the last training step, [replicas]; null without an
    /// optimizer.
    BatchStats* own_stats() const { return static_cast<BatchStats*>(own_stats_.get()); }

    /// Returns the operands of a replica. `arena`: for gradients, with the layout of State's; null:
    /// State's own arena.
    Operands operands(int replica = 0, float* arena = nullptr) const;
    int replicas() const { return replicas_; }

    /// Returns the element counts of the gradient arena, in order: the batch sums first, then each
    /// trained parameter (padded).
    const std::vector<size_t>& counts() const { return counts_; }
    Tensor gradient_slice(size_t begin, size_t end) const;
    size_t end_of_arena() const { return arena_; }
    /// Returns the arena offset of the end of this parameter's gradient. When that gradient is
    /// written, all before it are.
    size_t end_of(ParamId id) const { return end_[id]; }
    Update update(const OptimizerSpec&, const ParamRules&) const;
    Update update(const OptimizerSpec&, float weight_decay, bool decay_weights_only) const;
    /// Returns the look-ahead for the segments of `update`. The caller adds decays, counters and
    /// stats.
    LookAhead look_ahead(const Update& update, int replica = 0) const;
    /// Sets the look-ahead averages to the current weights and running statistics.
    void start_look_ahead(TensorMemory&) const;

    /// Draws initial values from (seed, parameter name, element); equal on every rank.
    void initialise(const Graph&, TensorMemory&, uint64_t seed);

    /// Returns the parameters and running statistics, which a model file holds.
    const std::vector<NamedTensor>& model() const { return model_; }
    const std::vector<NamedTensor>& optimizer() const { return optimizer_; }
    /// Returns a replica's running statistics and their look-ahead averages as one dense block.
    /// They are averaged over ranks before an evaluation. The replicas' blocks follow each other.
    Tensor running(int replica = 0) const;
    /// Returns all weights as one dense block, for the broadcast at the start and for checkpoints.
    Tensor weights() const { return weights_tensor_; }
    /// Returns all optimizer state as one dense block.
    Tensor optimizer_block() const { return optimizer_tensor_; }
    /// True if a tensor of model() is a weight, false if it is a running statistic.
    bool is_trained(const Tensor& t) const {
        const auto *begin = static_cast<const float*>(weights_tensor_.data), *at = static_cast<const float*>(t.data);
        return at >= begin && at < begin + weights_tensor_.count();
    }

private:
    // Parts of the constructor, called in this order.
    void lay_out_gradients(const Graph&);
    void allocate_weights(const Graph&, TensorMemory&);
    void allocate_optimizer(TensorMemory&, const OptimizerSpec&, bool look_ahead);
    void allocate_running(const Graph&, TensorMemory&);

    std::vector<Tensor> params_, gradients_;
    std::vector<size_t> counts_, end_;
    struct Segment {
        size_t begin, end;
        ParamId id;
        Param param;
    };
    std::vector<Segment> segments_;  // segments of the gradient arena, one per parameter
    Buffer weights_, gradients_buffer_, own_stats_, optimizer_buffer_, running_;
    Tensor weights_tensor_, running_tensor_, optimizer_tensor_;
    std::vector<NamedTensor> model_, optimizer_;
    size_t arena_ = 0;  // elements of the gradient arena
    const int replicas_;
    int look_ahead_ = -1;  // index of the plane of optimizer state that holds the average of the weights
};

/// Returns the offset of each running statistic in the block State::running(), by ParamId; 0 for
/// trained parameters. The last element is the block's length without look-ahead. Unit: elements.
std::vector<size_t> running_offsets(const Graph&);

}  // namespace convoy
