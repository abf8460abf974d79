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
/// uses them. Values that also depend on the data or the ranks are resolved later (train_setup.h).
struct TrainOptions {
    TrainOptions();  ///< not inline, because the generated code is long

    std::string data, output;
    std::string device;   ///< a name in device_choices()
    std::string chip;     ///< for --dry-run: a GPU, which may be absent; empty: this machine
    std::string log_dir;  ///< empty: no logs
    LogFormat log_format = LogFormat::plain;
    bool overwrite = false, dry_run = false, print_config = false, no_eval = false;
    ResumeFrom resume;
    double time_limit, watchdog;          ///< seconds; 0 for none
    int64_t batch_per_rank, batch_size;   ///< exactly one is positive once parsed
    int64_t virtual_ranks, accumulate;    ///< 0: not given; accumulate: logical ranks per rank
    int64_t eval_images;                  ///< 0: all of the test split
    double bucket_mib, stream_block_mib;  ///< 0: Convoy chooses

    BackendOptions backend;
    ModelOptions model;  ///< without size and classes, which the images determine
    TrainSetup setup;    ///< without the fields that setup_of() resolves; preprocessing.short_side is --resize
    FineTuning tuning;
    PlacementWish placement;
    RunDescription run;  ///< without the folder, and the texts that describe the run

    OptimizerChoice optimizer;
    double momentum;                            ///< double, because --lr depends on it, too
    std::optional<GivenRate> lr;                ///< nothing: auto_rate()
    bool lr_per_kilostep;                       ///< --lr and --weight-decay are for 1,024 samples
    std::optional<Schedule::Kind> lr_schedule;  ///< never empty once parsed
    std::optional<double> warmup_epochs;        ///< nothing: auto_warmup_epochs()
    ImageSize image_size;
    NumberList mean, stddev;

    bool random_windows() const { return setup.augment.crop == Crop::random_resized; }
};

/// An option that was given, on the command line or in a file.
struct Given {
    std::string file;  ///< the --config file; empty: the command line
    std::string value, default_value;
};
struct ParsedOptions {
    TrainOptions options;
    /// (name, value) in the order of --help, usable as a --config file
    ConfigPairs resolved;
    std::string note{};                  ///< about options that a run recorded; empty: none were used
    std::map<std::string, Given> given;  ///< by the option's name
};
/// The options that a run recorded, for a command that resumes the run.
struct RecordedOptions {
    std::string path{};     ///< the file that records them; empty: no run is resumed
    std::string options{};  ///< in the form of config_text(); empty: there is no run
    std::string failure{};  ///< why the file could not be read
};
/// The differences between another command's options and those of train.
struct OptionsOf {
    std::string command = "train";
    std::string output = "run folder (default output/MODEL-DATE-TIME)";  ///< help of --output
    std::string model = "resnet18";                                      ///< default of --model
    int64_t keep = 2;                                                    ///< default of --keep
    int64_t batch_size = 32;                                             ///< default of --batch-size; 0: none
    std::function<void(OptionTable&)> more{};                            ///< adds the command's other options
    std::function<void(OptionTable&)> log_format{};                      ///< adds another --log-format
    /// options that are refused on the command line, and have no effect in a recipe
    std::vector<std::string> without{};
    bool needs_data = true;
    RecordedOptions recorded{};  ///< used for options that are not given, if data or batch are missing
};
/// Parses the options, and checks everything that needs no data. Throws Exit::usage.
ParsedOptions parse_train_options(const std::vector<std::string>& args, const OptionsOf& = {});
/// Returns the values of train's --log-format.
const Choices<LogFormat>& log_formats();
/// Returns the options that a command takes, for its help.
OptionGroups option_groups(const OptionsOf& = {});
/// Returns the options of `convoy train` with their defaults.
ConfigPairs default_options();

}  // namespace convoy
