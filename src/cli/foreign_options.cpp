#include "cli/foreign_options.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace convoy {
namespace {

constexpr const char* ranks = "the launcher gives ranks, one per GPU: mpirun -np N";
constexpr const char* meeting = "the launcher tells ranks of one another: mpirun -np N -H HOST,HOST";
constexpr const char* batch = "is --batch-size (over all ranks) or --batch-per-rank here";
constexpr const char* test_batch =
    "an evaluation takes the batch of the training, and 'convoy evaluate' has --batch-per-rank: the result is the same";
constexpr const char* data = "is --data here, a folder that 'convoy convert' made";
constexpr const char* folder = "is --output here, the folder of the run; the data set's is --data";
constexpr const char* saved = "is not needed here: a run leaves its model in --output";
constexpr const char* workers = "is not needed here: images are in memory, and --threads are the cores of a rank";
constexpr const char* half = "is --precision f16 here, which GPUs have; CPUs have --precision bf16";
constexpr const char* mixed = "is --precision bf16 here; GPUs also have --precision f16";

/// Pairs of (the other program's option, the advice).
constexpr std::pair<const char*, const char*> table[] = {
    // devices and ranks
    {"no-cuda", "is --device cpu here"},
    {"cuda", "is --device cuda here"},
    {"use-cuda", "is --device cuda here"},
    {"gpu", "is --devices here, as in --devices 0,1"},
    {"gpu-device", "is --devices here, as in --devices 0,1"},
    {"gpu-devices", "is --devices here, as in --devices 0,1"},
    {"gpu-ids", "is --devices here, as in --devices 0,1"},
    {"g", ranks},
    {"gpu-nums", ranks},
    {"gpu-num", ranks},
    {"gpus", ranks},
    {"ngpus", ranks},
    {"num-gpus", ranks},
    {"nproc-per-node", ranks},
    {"nnodes", ranks},
    {"nodes", ranks},
    {"n", ranks},
    {"np", ranks},
    {"s", "the launcher gives ranks: mpirun -np N"},
    {"world-size", "the launcher gives ranks: mpirun -np N"},
    {"r", "the launcher gives ranks: mpirun -np N"},
    {"rank", "the launcher gives ranks: mpirun -np N"},
    {"node-rank", "the launcher gives ranks: mpirun -np N"},
    {"nr", "the launcher gives ranks: mpirun -np N"},
    {"local-rank", "the launcher gives ranks, and those of a node take its GPUs in order: mpirun -np N"},
    {"i", meeting},
    {"init-method", meeting},
    {"dist-url", meeting},
    {"ip", meeting},
    {"port", meeting},
    {"master-addr", meeting},
    {"master-port", meeting},
    {"backend", "is not needed here: NCCL sums on GPUs, MPI on CPUs (--device)"},
    {"dist-backend", "is not needed here: NCCL sums on GPUs, MPI on CPUs (--device)"},
    {"multiprocessing-distributed", ranks},
    // data and files
    {"dd", data},
    {"dataset-dir", data},
    {"data-dir", data},
    {"data-path", data},
    {"dataset", data},
    {"root", data},
    {"td", folder},
    {"train-dir", folder},
    {"sm", saved},
    {"save-model", saved},
    {"j", workers},
    {"workers", workers},
    {"num-worker", workers},
    {"num-workers", workers},
    {"loader-workers", workers},
    // precision
    {"bf16", "is --precision bf16 here"},
    {"fp16", half},
    {"half", half},
    {"f16", half},
    {"amp", mixed},
    {"use-amp", mixed},
    {"mixed-precision", mixed},
    {"autocast", mixed},
    {"tf32", "is --precision tf32 here, which GPUs have"},
    {"fp32", "is --precision f32 here, the default"},
    {"f32", "is --precision f32 here, the default"},
    // training
    {"a", "is --model here"},
    {"arch", "is --model here"},
    {"b", batch},
    {"bs", batch},
    {"tb", test_batch},
    {"test-batchsize", test_batch},
    {"test-batch-size", test_batch},
    {"e", "is --epochs here"},
    {"num-epochs", "is --epochs here"},
    {"learning-rate", "is --lr here"},
    {"lr-step", "is --lr-step-epochs here, with --lr-schedule step"},
    {"step-size", "is --lr-step-epochs here, with --lr-schedule step"},
    {"gamma", "is --lr-gamma here, with --lr-schedule step or multistep"},
    {"wd", "is --weight-decay here"},
    {"li", "is --log-interval here"},
    {"p", "is --log-interval here"},
    {"print-freq", "is --log-interval here"},
    {"model-file", "belongs to 'convoy classify', 'convoy evaluate' and 'convoy export'"},
    {"evaluate", "is a command here: convoy evaluate -h"},
    {"pretrained", "is --init-from FILE here, with weights that are on this machine"},
    {"finetune", "is --init-from FILE here"},
    {"initial-checkpoint", "is --init-from FILE here"},
    // Convoy's own before version 0.2
    {"tune", "is --tuning here, because mpirun takes that name for itself, and reads a file of the value's name"},
};

/// Returns true if the command has every option that `hint` names.
bool names_only(const std::string& hint, const std::function<bool(const std::string&)>& is_ours) {
    for (size_t at = hint.find("--"); at != std::string::npos; at = hint.find("--", at + 2)) {
        const size_t end = hint.find_first_not_of("abcdefghijklmnopqrstuvwxyz-", at + 2);
        if (!is_ours(hint.substr(at + 2, end == std::string::npos ? end : end - at - 2))) return false;
    }
    return true;
}

}  // namespace

std::string without_dashes(const std::string& argument) {
    const size_t start = argument.find_first_not_of('-');
    return start == std::string::npos ? "" : argument.substr(start, argument.find('=') - start);
}

std::string instead_of_foreign(std::string name, const std::function<bool(const std::string&)>& is_ours) {
    std::replace(name.begin(), name.end(), '_', '-');
    if (is_ours(name)) return "";
    for (const auto& [theirs, ours] : table)
        if (name == theirs && names_only(ours, is_ours)) return ours;
    return "";
}

void refuse_foreign(const std::vector<std::string>& args, const std::function<bool(const std::string&)>& is_ours) {
    for (const std::string& arg : args) {
        if (arg == "--") return;
        if (!arg.starts_with("-") || is_ours(without_dashes(arg))) continue;
        if (const std::string ours = instead_of_foreign(without_dashes(arg), is_ours); !ours.empty())
            fail(Exit::usage, arg.substr(0, arg.find('=')) + ": " + ours);
    }
}

}  // namespace convoy
