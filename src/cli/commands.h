// The subcommands, one file each in this folder. They take the arguments after their name, return
// the exit code, print to stdout what the user asked for, and throw Error for everything else.
#pragma once
#include <string>
#include <vector>

#include "cli/help.h"

namespace convoy {

class Comm;

/// Makes HDF5 shards from CIFAR, IDX files or a seed, on this rank.
int convert(const std::vector<std::string>& args);
/// Converts image files on all ranks, and the other sources on rank 0; collective.
int convert(Comm& comm, const std::vector<std::string>& args);
/// Makes HDF5 shards from image files; collective.
int convert_images(Comm& comm, const std::vector<std::string>& args);
/// Checks every checksum of a data set.
int verify(const std::vector<std::string>& args);
/// Trains a model; collective over all ranks of `comm`.
int train(Comm& comm, const std::vector<std::string>& args);
/// Trains once for each combination of some options' values, each time in a new process.
int sweep(const std::vector<std::string>& args);
/// Measures a trained model on a data set; collective.
int evaluate(Comm& comm, const std::vector<std::string>& args);
/// Predicts the classes of pictures; collective.
int classify(Comm& comm, const std::vector<std::string>& args);
/// Writes a model file in another program's format.
int export_model(const std::vector<std::string>& args);
/// Makes a model file from weights of PyTorch.
int import_model(const std::vector<std::string>& args);
/// Shows how a batch is split over ranks, and how its outputs are gathered; collective.
int demo(Comm& comm, const std::vector<std::string>& args);
/// Tests a cluster: sums, bits, speed and input of every rank; collective.
int accept(Comm& comm, const std::vector<std::string>& args);
/// Measures the speed of training steps; collective.
int bench(Comm& comm, const std::vector<std::string>& args);
/// Checks and measures all-reduces; collective.
int comm_test(Comm& comm, const std::vector<std::string>& args);
/// Sums up runs from their metric files.
int report(const std::vector<std::string>& args);
/// Draws runs, or how they scale, with src/plot/plot.py.
int plot(const std::vector<std::string>& args);
/// Draws cells of the scaling table, as JSON, into a file.
int plot_cells(const std::string& json, const std::string& out);
/// Predicts training steps on the machines of a cluster file. Needs no MPI.
int predict(const std::vector<std::string>& args);
/// Prints versions and where ranks run, or describes a file, or lists plans; collective.
int info(Comm& comm, const std::vector<std::string>& args);
/// Returns true for arguments of `info` that run plans, which needs no MPI.
bool runs_plans(const std::vector<std::string>& args);
/// Runs cuDNN's plans of a model on the GPU that is here: `info --plans MODEL --run`.
int run_plans(const std::vector<std::string>& args);

// These return the options of each command, for help. They need no MPI.
OptionGroups options_of_accept();
OptionGroups options_of_bench();
OptionGroups options_of_classify();
OptionGroups options_of_comm_test();
OptionGroups options_of_convert();
OptionGroups options_of_demo();
OptionGroups options_of_evaluate();
OptionGroups options_of_export();
OptionGroups options_of_import();
OptionGroups options_of_info();
OptionGroups options_of_plot();
OptionGroups options_of_predict();
OptionGroups options_of_report();
OptionGroups options_of_sweep();
OptionGroups options_of_train();
OptionGroups options_of_verify();

}  // namespace convoy
