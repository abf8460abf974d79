// Everything a training can be told, as text. Each option's name, default and help stand once, in train_options.cpp.
#pragma once
#include <boost/program_options.hpp>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "plan/schedule.h"

namespace convoy {

struct TrainOptions {
    std::string data, model, stem, output, device, precision, devices, bind;
    std::string chip;  ///< of --dry-run: a GPU that need not be here; empty: this machine
    int64_t threads, seed;
    bool share_device, no_graph, bf16_gradients;  ///< GPUs only
    bool overwrite, dry_run, print_config, help;

    std::string resume, checkpoint_every, time_limit;
    int64_t keep;
    bool strict_io;
    std::string on_nan, watchdog, publish_every;

    int64_t batch_per_rank, batch_size;  ///< exactly one is positive
    double epochs;
    int64_t max_steps;  ///< 0: no limit
    bool drop_last, sync_bn, no_eval;
    int64_t eval_every, eval_images, log_interval;  ///< eval_images 0: all of the test split
    int64_t metrics_every;  ///< 0: as many steps as keep /train within its row budget
    double bucket_mib;

    std::string optimizer, lr, lr_schedule, lr_milestones, lr_points, decay;
    double momentum, beta1, beta2, epsilon, weight_decay, warmup_epochs, lr_gamma, lr_step_epochs, label_smoothing;
    bool nesterov;
    std::string lr_unit, loss, decay_mode;
    double norm_shift_lr, filter_lr, linear_lr, muon_momentum, whitening_bias_epochs, look_ahead_decay;
    int64_t look_ahead;

    int64_t crop_pad;
    std::string crop_mode, flip_mode, tta, mean, stddev;
    bool flip;
};

/// Where an option's value comes from that was not left to its default.
struct Given {
    std::string file;             ///< the --config file; empty: the command line
    std::string value, standard;  ///< what is given, and the default
};
struct ParsedOptions {
    TrainOptions options;
    std::vector<std::pair<std::string, std::string>> resolved;  ///< (name, value) in the order of --help; a valid --config
    std::string help;  ///< set if --help was given
    std::map<std::string, Given> given;  ///< by the option's name
};
/// How another command's options differ from those of train.
struct OptionsOf {
    std::string command = "train";
    std::string usage = "usage: convoy train --data DIR --batch-per-rank N [--config RECIPE.cfg] [options]\n"
                        "Trains a model; flags win over the config file.\n";
    const char* output = "run folder (default output/MODEL-DATE-TIME)";  ///< help of --output
    boost::program_options::options_description more{};  ///< options of its own
    std::vector<std::string> without{};                  ///< refused on the command line; in a recipe they may stand, and do nothing
    bool needs_data = true;
};
/// Parses and checks everything that needs no data. Throws Exit::usage.
ParsedOptions parse_train_options(const std::vector<std::string>& args, const OptionsOf& = {});

// What the texts among the options mean; all throw Exit::usage naming the option.
BackendOptions backend_options_of(const TrainOptions&);
OptimizerSpec optimizer_of(const TrainOptions&);
Schedule schedule_of(const TrainOptions&, int64_t global_batch);
/// What a step decays by, at a rate of 1 or, decoupled, at the base rate.
double weight_decay_of(const TrainOptions&, int64_t global_batch);
Augment augment_of(const TrainOptions&);
/// What --checkpoint-every means; at most one is positive.
struct CheckpointClock {
    int64_t steps = 0, epochs = 0;
    double seconds = 0;
};
CheckpointClock checkpoint_clock_of(const TrainOptions&);
/// Seconds from now: --time-limit, or until SLURM_JOB_END_TIME if that is set and no limit was given; 0: no limit.
double time_limit_of(const TrainOptions&);
/// Seconds of --watchdog; 0: none.
double watchdog_of(const TrainOptions&);
/// Seconds of --publish-every.
double publish_every_of(const TrainOptions&);
/// Comma-separated numbers; empty text gives none.
std::vector<double> numbers_of(const std::string& option, const std::string& text);

}  // namespace convoy
