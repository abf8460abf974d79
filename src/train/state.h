// The tensors of a training: parameters, gradients and optimizer state in arenas with one offset
// table. So the optimizer is one pass, and a gradient bucket is a slice. Parameters lie in the
// order in which backward reaches them; frozen ones come last. With look-ahead, the slow weights
// are optimizer state and the slow running statistics lie after the running statistics, so that
// checkpoints have both.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "model/graph.h"

namespace convoy {

struct NamedTensor {
    /// "stage1.block0.conv1.weight"; optimizer state has ".velocity" or ".moment1", ".moment2"
    /// appended, or ".slow"
    std::string name;
    Tensor tensor;  ///< on the device
};

/// What the optimizer does with one parameter besides its spec.
struct ParamRule {
    float weight_decay = 0;
    float learning_rate = 1;    ///< times the step's
    int64_t steps = INT64_MAX;  ///< trained for so many
    bool muon = false;
};
using ParamRules = std::function<ParamRule(const Param&)>;

/// What ops read and write besides activations.
struct Operands {
    std::vector<Tensor> params, gradients;  ///< as those of State
    float* arena;                           ///< that the gradients lie in
    BatchStats *stats, *own;                ///< as those of State
};

class State {
public:
    /// Allocates everything, zeroed. `optimizer` may be null: no gradients, no optimizer state
    /// (evaluation). `replicas`: logical ranks, each with running statistics of its own.
    State(const Graph&, Backend&, const OptimizerSpec* optimizer, bool look_ahead = false, int replicas = 1);

    const std::vector<Tensor>& params() const { return params_; }  ///< by ParamId
    /// by ParamId; no data for running statistics and what is frozen
    const std::vector<Tensor>& gradients() const { return gradients_; }
    BatchStats* stats() const { return static_cast<BatchStats*>(gradients_buffer_.get()); }
    /// This rank's part of stats(), of the last training step, by replica; null without an
    /// optimizer.
    BatchStats* own_stats() const { return static_cast<BatchStats*>(own_stats_.get()); }

    /// Of a replica, with gradients in an arena like that of State; null: in that of State.
    Operands operands(int replica = 0, float* arena = nullptr) const;
    int replicas() const { return replicas_; }

    /// Element counts of the gradient arena in order: the batch sums first, then each trained
    /// parameter (padded).
    const std::vector<size_t>& counts() const { return counts_; }
    Tensor gradient_slice(size_t begin, size_t end) const;
    size_t end_of_arena() const { return arena_; }
    /// Arena offset of the end of this parameter's gradient. Once it is written, all before is.
    size_t end_of(ParamId id) const { return end_[id]; }
    Update update(const OptimizerSpec&, const ParamRules&) const;
    Update update(const OptimizerSpec&, float weight_decay, bool decay_weights_only) const;
    /// Without decays, counters and stats. `update` gives the segments.
    LookAhead look_ahead(const Update& update, int replica = 0) const;
    /// The averages start as what the weights and running statistics are now.
    void start_look_ahead(Backend&) const;

    /// Draws initial values from (seed, parameter name, element); equal on every rank.
    void initialise(const Graph&, Backend&, uint64_t seed);

    /// Parameters and running statistics: what a model file holds.
    const std::vector<NamedTensor>& model() const { return model_; }
    const std::vector<NamedTensor>& optimizer() const { return optimizer_; }
    /// Running statistics and their look-ahead averages, as one dense block (they are averaged over
    /// ranks before an evaluation). Those of all replicas lie one after the other.
    Tensor running(int replica = 0) const;
    /// All weights as one dense block, for the broadcast at the start and for checkpoints.
    Tensor weights() const { return weights_tensor_; }
    /// All optimizer state as one dense block.
    Tensor optimizer_block() const { return optimizer_tensor_; }
    /// Whether a tensor of model() lies among the weights (else among the running statistics).
    bool is_trained(const Tensor& t) const {
        const auto *begin = static_cast<const float*>(weights_tensor_.data), *at = static_cast<const float*>(t.data);
        return at >= begin && at < begin + weights_tensor_.count();
    }

private:
    // Steps of the constructor, in this order.
    void lay_out_gradients(const Graph&);
    void allocate_weights(const Graph&, Backend&);
    void allocate_optimizer(Backend&, const OptimizerSpec&, bool look_ahead);
    void allocate_running(const Graph&, Backend&);

    std::vector<Tensor> params_, gradients_;
    std::vector<size_t> counts_, end_;
    struct Segment {
        size_t begin, end;
        ParamId id;
        Param param;
    };
    std::vector<Segment> segments_;  // of the gradient arena, one a parameter
    Buffer weights_, gradients_buffer_, own_stats_, optimizer_buffer_, running_;
    Tensor weights_tensor_, running_tensor_, optimizer_tensor_;
    std::vector<NamedTensor> model_, optimizer_;
    size_t arena_ = 0;  // elements of gradients
    const int replicas_;
    int look_ahead_ = -1;  // which plane of the optimizer state is the average of the weights
};

/// Where each running statistic lies in the block State::running(), by ParamId; 0 for trained
/// parameters. The last element is the block's length without look-ahead. Units: elements.
std::vector<size_t> running_offsets(const Graph&);

}  // namespace convoy
