// The options of a training, as values. train_options.cpp has each option's name, type, choices,
// default and help.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "cli/choices.h"
#include "cli/option_table.h"
#include "cli/option_values.h"
#include "cli/progress_lines.h"
#include "plan/schedule.h"
#include "run/recorder.h"

namespace convoy {

struct TrainOptions {
    std::string data, model, stem, output;
    std::string device;  ///< of device_choices()
    std::string chip;    ///< of --dry-run: a GPU that need not be here; empty: this machine
    Precision precision;
    std::vector<int> devices;
    bool bind;  ///< share the cores of a node out among its ranks
    int64_t threads, seed;
    // GPUs only
    bool share_device, no_graph, one_stream, bf16_gradients;
    NormBy norm_by;
    double tune_seconds;
    ConvBy conv_by;
    bool overwrite, dry_run, print_config;

    ResumeFrom resume;
    CheckpointClock checkpoint;
    double time_limit, watchdog, publish_every;  ///< seconds; the first two: 0 for none
    int64_t keep;
    bool strict_io, no_environment;
    OnNan on_nan;

    int64_t batch_per_rank, batch_size;  ///< exactly one is positive once parsed
    double epochs;
    int64_t max_steps;                  ///< 0: no limit
    int64_t virtual_ranks, accumulate;  ///< 0: as many as there are; 0: one logical rank to a rank
    bool drop_last, sync_bn, no_eval;
    int64_t eval_every, eval_images, log_interval;  ///< eval_images 0: all of the test split
    int64_t metrics_every;                          ///< 0: as steps_between_rows()
    double bucket_mib;
    LogFormat log_format;
    std::string log_dir;  ///< empty: no logs

    OptimizerChoice optimizer;
    std::optional<GivenRate> lr;                ///< nothing: auto_rate()
    bool lr_per_kilostep;                       ///< --lr and --weight-decay are for 1,024 samples
    std::optional<Schedule::Kind> lr_schedule;  ///< never empty once parsed
    std::vector<double> lr_milestones;          ///< epochs
    RatePoints lr_points;
    std::optional<double> warmup_epochs;  ///< nothing: auto_warmup_epochs()
    double momentum, beta1, beta2, epsilon, weight_decay, lr_gamma, lr_step_epochs, label_smoothing;
    bool nesterov, decoupled_decay, decay_weights_only;
    bool sum_loss;  ///< gradients are those of the sum over the batch
    double norm_shift_lr, filter_lr, linear_lr, muon_momentum, whitening_bias_epochs, look_ahead_decay;
    int64_t look_ahead;  ///< steps

    ImageSize image_size;
    int64_t resize;  ///< short side in pixels; 0: 8/7 of the image size, if images are resized at all
    bool random_resized_crop;
    Interval crop_scale, crop_ratio;  ///< shares of the area; width over height
    int64_t crop_pad;                 ///< pixels
    bool crop_reflect, flip, flip_alternate;
    double mixup, cutmix;  ///< of the Beta distribution of shares; 0: off
    ColorJitter color_jitter;
    Tta tta;
    Placement placement;
    double stream_block_mib;  ///< 0: stream_block_bytes() chooses
    NumberList mean, stddev;
};

/// Where an option's value comes from that was not left to its default.
struct Given {
    std::string file;             ///< the --config file; empty: the command line
    std::string value, standard;  ///< what is given, and the default
};
struct ParsedOptions {
    TrainOptions options;
    /// (name, value) in the order of --help; a valid --config
    ConfigPairs resolved;
    std::string note{};                  ///< on options that a run recorded; empty: none were taken
    std::map<std::string, Given> given;  ///< by the option's name
};
/// The options that a run recorded, for a start that continues it.
struct RecordedOptions {
    std::string path{};     ///< the file that says it; empty: not asked for
    std::string options{};  ///< as config_text() has them; empty: there is no run
    std::string failure{};  ///< why the file could not be read
};
/// How another command's options differ from those of train.
struct OptionsOf {
    std::string command = "train";
    std::string output = "run folder (default output/MODEL-DATE-TIME)";  ///< help of --output
    std::string model = "resnet18";                                      ///< default of --model
    int64_t keep = 2;                                                    ///< default of --keep
    int64_t batch_size = 32;                                             ///< if no batch is given; 0: one must be
    std::function<void(OptionTable&)> more{};                            ///< adds the command's other options
    /// refused on the command line; in a recipe they may stand, and do nothing
    std::vector<std::string> without{};
    bool needs_data = true;
    RecordedOptions recorded{};  ///< stand for what is not given, where data or batch are missing
};
/// Parses and checks everything that needs no data. Throws Exit::usage.
ParsedOptions parse_train_options(const std::vector<std::string>& args, const OptionsOf& = {});
/// The options that a command takes, for its help.
OptionGroups option_groups(const OptionsOf& = {});
/// The options of `convoy train` as they are if none is given.
ConfigPairs default_options();

}  // namespace convoy
