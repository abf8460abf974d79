// What a training is going to do, said before it starts, and by --dry-run.
#include <algorithm>
#include <cstdio>

#include "base/text.h"
#include "base/version.h"
#include "cli/console.h"

namespace convoy {
namespace {

double mib(size_t bytes) { return double(bytes) / (1 << 20); }

}  // namespace

void Console::print_plan(const ConfigPairs& config, const std::string& data_dir, const DataSet& train, const DataSet* test,
                         const Graph& graph, const TrainSetup& s, const Trainer& t) {
    total_steps_ = t.total_steps();
    steps_per_epoch_ = t.steps_per_epoch();
    epochs_ = (total_steps_ + steps_per_epoch_ - 1) / steps_per_epoch_;
    metrics_every_ = s.metrics_every > 0 ? s.metrics_every : steps_between_rows(total_steps_);
    if (!comm_.root()) return;
    const SplitInfo& d = train.info();
    terminal_.line(formatted("convoy %s (%s), %d rank%s", version, commit(), comm_.size(), comm_.size() == 1 ? "" : "s"));
    std::string line = "options  ";
    for (const auto& [key, value] : config) {
        if (value.empty()) continue;
        if (line.size() + key.size() + value.size() > 120) {
            terminal_.line(line);
            line = "         ";
        }
        line += " " + key + "=" + value;
    }
    terminal_.line(line);
    const double seconds = train.seconds() + (test ? test->seconds() : 0);
    const std::string reading =
        seconds > 0 ? formatted("read in %.2f s", seconds) : formatted("%.1f MiB", mib(d.image_bytes() + (test ? test->info().image_bytes() : 0)));
    terminal_.line(formatted("data      %s: %lld training and %s test images of %dx%dx%d, %d classes; %s", data_dir.c_str(), (long long)d.images,
                             test ? std::to_string(test->info().images).c_str() : "no", d.height, d.width, d.channels, d.classes, reading.c_str()));
    terminal_.line(formatted("model     %s: %s parameters, %.3f GFLOP an image forward (multiply-adds count two)", graph.model.c_str(),
                             grouped(graph.trained_count()).c_str(), graph.flops_per_image() / 1e9));
    size_t bytes = 0;
    for (size_t count : t.state().counts()) bytes += count * sizeof(float);
    terminal_.line(formatted("memory    %.1f MiB each for parameters and gradients, %.1f MiB optimizer state, %.1f MiB activations a rank", mib(bytes),
                mib(bytes) * s.optimizer.state_per_element(), mib(t.arena_bytes())));
    std::string sizes;
    for (const Bucket& b : t.buckets()) sizes += formatted("%s%.1f", sizes.empty() ? "" : " ", mib((b.end - b.begin) * sizeof(float)));
    terminal_.line(formatted("buckets   %zu of gradients, in backward order: %s MiB", t.buckets().size(), sizes.c_str()));
    const int64_t small = s.global_batch / comm_.size(), large = small + (s.global_batch % comm_.size() ? 1 : 0);
    const std::string a_rank = small == large ? std::to_string(small) : formatted("%lld or %lld", (long long)small, (long long)large);
    terminal_.line(formatted("batch     %lld global, %s a rank; %lld steps an epoch%s; %lld steps in all", (long long)s.global_batch, a_rank.c_str(),
                (long long)steps_per_epoch_,
                t.tail() ? formatted(", the last of %lld samples", (long long)t.tail()).c_str() : "", (long long)total_steps_));
    terminal_.line(formatted("rate      %g at first, %g at the end, base %g", learning_rate(s.schedule, 0, steps_per_epoch_, total_steps_),
                learning_rate(s.schedule, total_steps_ - 1, steps_per_epoch_, total_steps_), s.schedule.base));
    if (metrics_every_ > 1)
        terminal_.line(formatted("metrics   of each %lldth step are kept, and of the last (--metrics-every); of all epochs and "
                                 "evaluations",
                                 (long long)metrics_every_));
    const bool norms = std::any_of(graph.ops.begin(), graph.ops.end(), [](const Op& op) { return std::holds_alternative<BatchNorm>(op); });
    if (comm_.size() > 1 && norms)
        terminal_.line(formatted("batchnorm %s", s.sync_bn ? "statistics over the global batch (--sync-bn)"
                                                : "statistics of each rank's own samples; running statistics averaged before an evaluation"));
}

}  // namespace convoy
