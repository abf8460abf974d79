// convoy demo: does what PyTorch's data-parallel demo does. Each rank runs the forward pass on its
// share of a batch and prints the share's size; rank 0 gathers all outputs. Nothing is trained or
// written.
#include <algorithm>
#include <cstdio>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/option_effects.h"
#include "cli/terminal.h"
#include "cli/train_setup.h"
#include "cli/train_steps.h"
#include "comm/preflight.h"
#include "comm/watchdog.h"
#include "train/forward_pass.h"

namespace convoy {
namespace {

/// Options of train that mean nothing here.
const std::vector<std::string> training_options = {"init-from",
                                                   "init-skip",
                                                   "freeze",
                                                   "freeze-batchnorm",
                                                   "lr-factor",
                                                   "output",
                                                   "overwrite",
                                                   "resume",
                                                   "checkpoint-every",
                                                   "keep",
                                                   "time-limit",
                                                   "strict-io",
                                                   "publish-every",
                                                   "on-nan",
                                                   "audit",
                                                   "on-audit",
                                                   "data-placement",
                                                   "stream-block-mib",
                                                   "bf16-gradients",
                                                   "log-interval",
                                                   "metrics-every",
                                                   "log-format",
                                                   "log-dir",
                                                   "no-environment",
                                                   "dry-run",
                                                   "chip",
                                                   "print-config",
                                                   "precision",
                                                   "epochs",
                                                   "drop-last",
                                                   "eval-every",
                                                   "eval-images",
                                                   "no-eval",
                                                   "sync-bn",
                                                   "virtual-ranks",
                                                   "accumulate",
                                                   "bucket-mib",
                                                   "optimizer",
                                                   "lr",
                                                   "lr-unit",
                                                   "norm-shift-lr",
                                                   "filter-lr",
                                                   "linear-lr",
                                                   "muon-momentum",
                                                   "whitening-bias-epochs",
                                                   "lr-schedule",
                                                   "lr-gamma",
                                                   "lr-step-epochs",
                                                   "lr-milestones",
                                                   "lr-points",
                                                   "warmup-epochs",
                                                   "momentum",
                                                   "nesterov",
                                                   "beta1",
                                                   "beta2",
                                                   "epsilon",
                                                   "weight-decay",
                                                   "decay-mode",
                                                   "decay",
                                                   "label-smoothing",
                                                   "loss",
                                                   "look-ahead",
                                                   "look-ahead-decay",
                                                   "random-resized-crop",
                                                   "crop-scale",
                                                   "crop-ratio",
                                                   "crop-pad",
                                                   "crop-mode",
                                                   "flip",
                                                   "flip-mode",
                                                   "color-jitter",
                                                   "mixup",
                                                   "cutmix",
                                                   "tta"};

OptionsOf command() { return {.command = "demo", .model = "linear", .batch_size = 10, .without = training_options}; }

/// Returns "[5, 10]", or for images "[5, 32, 32, 3]".
std::string size_text(int64_t samples, const Shape& s) {
    const std::string pixels = s.h * s.w > 1 ? formatted("%d, %d, ", s.h, s.w) : "";
    return formatted("[%lld, %s%d]", (long long)samples, pixels.c_str(), s.c);
}

std::string rank_line(int rank, const ForwardPass::Result& r) {
    if (r.input.n == 0) return formatted("rank %d: no rows of this batch", rank);
    return formatted("rank %d:\tIn Model: input size %s output size %s", rank, size_text(r.input.n, r.input).c_str(),
                     size_text(r.output.n, r.output).c_str());
}

/// Collective. Runs one batch and prints the sizes.
void show_batch(Comm& comm, ForwardPass& pass, int64_t batch) {
    const ForwardPass::Result r = pass.run(batch);
    const std::vector<std::string> lines = comm.gather_all(rank_line(comm.rank(), r));
    if (!comm.root()) return;
    for (const std::string& line : lines) std::puts(line.c_str());
    std::printf("Outside: input size %s output_size %s\n", size_text(r.samples, r.input).c_str(),
                size_text(int64_t(r.outputs.size()) / r.output.c, r.output).c_str());
    std::fflush(stdout);
}

}  // namespace

OptionGroups options_of_demo() { return option_groups(command()); }

int demo(Comm& comm, const std::vector<std::string>& args) {
    ParsedOptions parsed;
    comm.together([&] { parsed = parse_train_options(args, command()); });
    const TrainOptions& o = parsed.options;
    comm.together([&] { check_world(comm); });
    Terminal progress(stderr, comm.root());  // stdout is for the sizes
    print_paths_of_recipe(progress, parsed);
    const Heartbeat heartbeat(comm.activity(), progress);
    Watchdog watchdog(comm, o.watchdog);
    check_same_command(comm, parsed);
    const std::unique_ptr<Backend> backend = make_backend(o.device, o.backend, comm);
    std::unique_ptr<SplitReader> reader;
    Graph graph;
    Preprocessing preprocessing;
    comm.together([&] {
        check_effects_on_device(parsed, *backend);
        reader = std::make_unique<SplitReader>(o.data, "train");
        check_images(o, reader->info());
        preprocessing = preprocessing_of(o, reader->info());
        graph = fuse(build_model(model_of(o, reader->info())));
    });
    check_same_split(comm, *reader);
    const DataSet data(comm, *backend, *reader);
    State state(graph, *backend, nullptr);
    state.initialise(graph, *backend, o.setup.seed);
    const int64_t batch = o.batch_size > 0 ? o.batch_size : o.batch_per_rank * comm.size();
    ForwardPass pass(comm, *backend, graph, state, data, preprocessing, batch);
    progress.close();

    if (comm.root()) std::puts(backend->facts().synchronous ? "runs on cpu" : "runs on gpu");
    const int64_t batches = o.setup.max_steps > 0 ? std::min(o.setup.max_steps, pass.batches()) : pass.batches();
    for (int64_t i = 0; i < batches; ++i) show_batch(comm, pass, i);
    return 0;
}

}  // namespace convoy
