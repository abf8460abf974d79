// Optimizer arithmetic of one element, shared by both backends. The rules are those of PyTorch's
// SGD and Adam: decay is added to the gradient, not decoupled.
#pragma once
#include <cmath>

#include "base/host_device.h"

namespace convoy {

struct OptimizerSpec {
    enum Kind { sgd, adam } kind = sgd;
    float momentum = 0.9f;                                ///< sgd
    bool nesterov = false;                                ///< sgd
    float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;  ///< adam
    float muon_momentum = 0.6f;                           ///< Nesterov momentum of matrices that Muon updates
    /// Returns the floats of state per element: momentum, or first and second moment.
    int state_per_element() const { return kind == adam ? 2 : 1; }
};

/// Updates one element: w and its velocity. lr and decay are those of the element's parameter.
CONVOY_HD void sgd_update(const OptimizerSpec& o, float lr, float decay, float g, float& w, float& velocity) {
    g += decay * w;
    velocity = o.momentum * velocity + g;
    w -= lr * (o.nesterov ? g + o.momentum * velocity : velocity);
}

/// Updates one element. correction1 = 1 - beta1^t and correction2 = sqrt(1 - beta2^t), t counted
/// from 1.
CONVOY_HD void adam_update(const OptimizerSpec& o, float lr, float decay, float correction1, float correction2, float g,
                           float& w, float& m, float& v) {
    g += decay * w;
    m = o.beta1 * m + (1 - o.beta1) * g;
    v = o.beta2 * v + (1 - o.beta2) * g * g;
    w -= lr / correction1 * m / (sqrtf(v) / correction2 + o.epsilon);
}

constexpr int muon_iterations = 3;
/// one Newton-Schulz iteration maps a singular value x to a x + b x^3 + c x^5
constexpr float muon_a = 3.4445f, muon_b = -4.7750f, muon_c = 2.0315f;

/// Advances the velocity and returns Nesterov's gradient of one element, which Muon orthogonalises.
CONVOY_HD float muon_direction(float momentum, float g, float& velocity) {
    velocity = momentum * velocity + g;
    return g + momentum * velocity;
}

/// Averages one element: slow keeps the share `decay` of itself, then w = slow. A decay of 1 does
/// not change slow.
CONVOY_HD void look_ahead_update(float decay, float& w, float& slow) {
    slow += (1 - decay) * (w - slow);
    w = slow;
}

}  // namespace convoy
