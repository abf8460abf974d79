#include "cli/dry_run.h"

#include <sstream>

#include "backend/chips.h"
#include "backend/cuda_queries.h"
#include "backend/gpu/all_reduces.h"
#include "backend/gpu/dry_run_backend.h"
#include "base/text.h"
#include "cli/console.h"
#include "cli/train_setup.h"
#include "cli/train_steps.h"
#include "run/finished_run.h"
#include "supply/stream.h"

namespace convoy {
namespace {

double mib(size_t bytes) { return double(bytes) / (1 << 20); }

/// Returns the backend of a dry run. If there is a GPU, asks it for its free memory, and uses it no
/// further.
std::unique_ptr<Backend> backend_of_dry_run(Comm& comm, const TrainOptions& o) {
    const cuda::AlgorithmOptions algorithms{.precision = o.backend.precision,
                                            .norm_by = o.backend.norm_by,
                                            .synchronised = o.backend.sync_bn && comm.size() > 1};
    if (!o.chip.empty()) {
        const Chip& chip = find_chip(o.chip);
        const bool linked = comm.size() > 1 && chip.nvlink;
        return std::make_unique<DryRunBackend>(chip.title, chip.memory, "the memory of --chip " + o.chip, algorithms,
                                               cuda::bucket_bytes_of(false, linked, linked));
    }
    BackendOptions options = o.backend;
    options.dry_run = true;
    std::unique_ptr<Backend> real = make_backend(o.device, options, comm);
    const std::optional<size_t> free = real->device_memory_free();
    if (!free) return real;
    return std::make_unique<DryRunBackend>(real->facts().device, *free, "the free memory of the GPU", algorithms,
                                           real->facts().bucket_bytes);
}

void print_device(Terminal& terminal, const TrainOptions& o, const Backend& backend, int ranks) {
    std::string where;
    if (!o.chip.empty()) where = " (need not be here)";
    if (!o.chip.empty() && ranks > 1)
        where += find_chip(o.chip).nvlink ? ", linked by NVLink or InfiniBand" : ", linked by PCI Express";
    terminal.line(formatted("device    %s%s, precision %s", backend.facts().device.c_str(), where.c_str(),
                            name_of(o.backend.precision)));
    if (const auto left = backend.device_memory_free())
        terminal.line(
            formatted("gpu       %.1f of %.1f MiB for tensors and the data set; workspaces of cuDNN's plans, NCCL and "
                      "CUDA itself come on top",
                      mib(backend.memory_taken()), mib(backend.memory_taken() + *left)));
}

/// Prints cuDNN's plans for a step on a chip. If this machine has a CUDA driver, cuDNN compiles
/// them, which takes a minute for a deep model.
void print_plans(Terminal& terminal, const TrainOptions& o, const Description& d, int ranks) {
    const int batch = int(share_of(d.setup.global_batch, ranks, 0).count);
    try {
        terminal.line(formatted("plans     of cuDNN for a step of %d images:", batch));
        std::istringstream table(plan_table(d.graph,
                                            {.batch = batch,
                                             .precision = o.backend.precision,
                                             .norm_by = o.backend.norm_by,
                                             .sync_bn = o.backend.sync_bn,
                                             .ranks = ranks,
                                             .one_stream = o.backend.one_stream},
                                            o.chip));
        for (std::string line; std::getline(table, line);) terminal.line(line);
    } catch (const Error& reason) {
        terminal.line(std::string("          cannot be listed here: ") + reason.what());
    }
}

/// Checks that images can be streamed. Throws what StreamBlocks and check_batch() throw.
void check_stream(const SplitReader& reader, const Placed& placed, const TrainSetup& setup) {
    const SplitInfo& info = reader.info();
    const RowShapes shapes(info, info.ragged ? reader.places() : std::vector<ImagePlace>());
    StreamBlocks(std::make_shared<SplitPieces>(reader), shapes, placed.stream_block)
        .check_batch(shapes, std::min(setup.global_batch, info.images));
}

}  // namespace

int dry_run(Comm& comm, ParsedOptions& parsed, const TimeLimit& limit, Terminal& terminal) {
    const TrainOptions& o = parsed.options;
    print_paths_of_recipe(terminal, parsed);
    const std::unique_ptr<Backend> backend = backend_of_dry_run(comm, o);
    const Description d = describe_training(comm, *backend, parsed, limit.deadline);
    const SplitInfo train_info = d.train->info(), test_info = first_images(*d.test, o.eval_images);
    if (o.chip.empty()) check_room(comm, d.placed);  // with a chip, another host may be the one that trains
    if (d.placed.placement == Placement::stream) comm.together([&] { check_stream(*d.train, d.placed, d.setup); });

    Requests nobody;
    std::unique_ptr<DataSet> train_data, test_data;
    std::unique_ptr<Trainer> trainer;
    comm.together([&] {
        train_data = std::make_unique<DataSet>(*backend, train_info, d.placed);
        if (!o.no_eval) test_data = std::make_unique<DataSet>(*backend, test_info, d.placed);
        trainer = std::make_unique<Trainer>(comm, *backend, d.graph, *train_data, test_data.get(), d.setup, nobody,
                                            d.earlier);
    });
    const RunPlace place = prepare_in_place(comm, *backend, o, trainer->programs());
    Console(*trainer, terminal)
        .print_setup(parsed.resolved, o.data, *train_data, test_data.get(), d.graph, d.setup, comm.size(), d.notes);
    build_programs(comm, *backend, o, trainer->programs());
    print_device(terminal, o, *backend, comm.size());
    if (!d.placed.why.empty()) terminal.line("images    " + d.placed.why);
    print_limit(terminal, limit);
    comm.together([&] {
        if (!o.log_dir.empty()) check_folder(o.log_dir, "--log-dir");
        if (!comm.root()) return;
        if (o.output.empty())  // without --output, a training makes a new folder
            check_folder(place.folder, "--output");
        else
            check_run_folder(place.folder, place.continues, place.overwrite);
        const Identity identity = identity_of(o, train_info, d.setup, d.placed);
        if (is_finished(place, identity, trainer->programs().total_steps()))
            return terminal.line("dry run   the run is done already, and kept no checkpoint");
        find_resume_point(place, place.folder, trainer->programs().state(), identity,
                          trainer->programs().total_steps());
        check_metrics(place);
        if (!o.chip.empty()) print_plans(terminal, o, d, comm.size());
        terminal.line("dry run   a training would start");
    });
    return 0;
}

}  // namespace convoy
