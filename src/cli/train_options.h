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
#include "cli/fine_tuning.h"
#include "cli/option_table.h"
#include "cli/option_values.h"
#include "cli/progress_lines.h"
#include "model/models.h"
#include "run/recorder.h"
#include "train/trainer.h"

namespace convoy {

/// The options of a training. parse_train_options() fills them in, most of them in the struct that
/// uses them. What also depends on the data or the ranks is resolved later: train_setup.h.
struct TrainOptions {
    TrainOptions();  ///< not inline, because it is long

    std::string data, output;
    std::string device;   ///< of device_choices()
    std::string chip;     ///< of --dry-run: a GPU that need not be here; empty: this machine
    std::string log_dir;  ///< empty: no logs
    LogFormat log_format = LogFormat::plain;
    bool overwrite = false, dry_run = false, print_config = false, no_eval = false;
    ResumeFrom resume;
    double time_limit, watchdog;          ///< seconds; 0 for none
    int64_t batch_per_rank, batch_size;   ///< exactly one is positive once parsed
    int64_t virtual_ranks, accumulate;    ///< 0: as many as there are; 0: one logical rank to a rank
    int64_t eval_images;                  ///< 0: all of the test split
    double bucket_mib, stream_block_mib;  ///< 0: Convoy chooses

    BackendOptions backend;
    ModelOptions model;  ///< without size and classes, which are those of the images
    TrainSetup setup;    ///< without what setup_of() resolves; preprocessing.short_side is --resize
    FineTuning tuning;
    PlacementWish placement;
    RunDescription run;  ///< without the folder, and what describes the run

    OptimizerChoice optimizer;
    double momentum;                            ///< in double, because --lr depends on it too
    std::optional<GivenRate> lr;                ///< nothing: auto_rate()
    bool lr_per_kilostep;                       ///< --lr and --weight-decay are for 1,024 samples
    std::optional<Schedule::Kind> lr_schedule;  ///< never empty once parsed
    std::optional<double> warmup_epochs;        ///< nothing: auto_warmup_epochs()
    ImageSize image_size;
    NumberList mean, stddev;

    bool random_windows() const { return setup.augment.crop == Crop::random_resized; }
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
    std::function<void(OptionTable&)> log_format{};                      ///< adds another --log-format
    /// refused on the command line; in a recipe they may stand, and do nothing
    std::vector<std::string> without{};
    bool needs_data = true;
    RecordedOptions recorded{};  ///< stand for what is not given, where data or batch are missing
};
/// Parses and checks everything that needs no data. Throws Exit::usage.
ParsedOptions parse_train_options(const std::vector<std::string>& args, const OptionsOf& = {});
/// --log-format of train
const Choices<LogFormat>& log_formats();
/// The options that a command takes, for its help.
OptionGroups option_groups(const OptionsOf& = {});
/// The options of `convoy train` as they are if none is given.
ConfigPairs default_options();

}  // namespace convoy
