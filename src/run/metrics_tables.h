// The columns of the metric files. HDF5 columns, their units and the JSON keys follow from these
// lists. A new column needs one field in metrics_rows.h and one line here; older files still load.
#pragma once
#include <cstdint>
#include <string>
#include <variant>

#include "run/metrics_rows.h"

namespace convoy {

template <class Row> struct Column {
    const char *name, *units, *long_name;  // units "1": a plain number; "none": text
    std::variant<int64_t Row::*, double Row::*, std::string Row::*> field;
};

// The first column of a table is the dimension scale of the others. `kind` identifies a table's
// lines in metrics.jsonl.
template <class Row> struct Table;

template <> struct Table<TrainRow> {
    static constexpr const char *group = "train", *kind = "train";
    static constexpr Column<TrainRow> columns[] = {
        {"step", "1", "optimizer steps done", &TrainRow::step},
        {"epoch", "1", "epoch the step belongs to, from 1", &TrainRow::epoch},
        {"loss", "nat", "training loss (cross-entropy with smoothed labels, mean over images)", &TrainRow::loss},
        {"accuracy", "1", "training accuracy, as a fraction", &TrainRow::accuracy},
        {"top5_accuracy", "1", "training images whose label is among the five best classes, as a fraction",
         &TrainRow::top5_accuracy},
        {"learning_rate", "1", "learning rate", &TrainRow::learning_rate},
        {"step_seconds", "s", "wall time of a step", &TrainRow::step_seconds},
        {"data_seconds", "s", "part of a step spent preparing its batch", &TrainRow::data_seconds},
        {"comm_exposed_seconds", "s", "part of a step spent in communication that computation does not hide",
         &TrainRow::comm_exposed_seconds},
    };
};

template <> struct Table<EvalRow> {
    static constexpr const char *group = "eval", *kind = "eval";
    static constexpr Column<EvalRow> columns[] = {
        {"step", "1", "optimizer steps done", &EvalRow::step},
        {"epoch", "1", "epochs done", &EvalRow::epoch},
        {"loss", "nat", "test loss (cross-entropy without label smoothing, mean over images)", &EvalRow::loss},
        {"accuracy", "1", "test accuracy, as a fraction", &EvalRow::accuracy},
        {"top5_accuracy", "1", "test images whose label is among the five best classes, as a fraction",
         &EvalRow::top5_accuracy},
        {"seconds", "s", "wall time of the evaluation", &EvalRow::seconds},
    };
};

template <> struct Table<EpochRow> {
    static constexpr const char *group = "epochs", *kind = "epoch";
    static constexpr Column<EpochRow> columns[] = {
        {"epoch", "1", "epoch, from 1", &EpochRow::epoch},
        {"images", "1",
         "training images of all ranks in this row; fewer than the epoch's if the run was resumed within it",
         &EpochRow::images},
        {"seconds", "s", "wall time of these images, evaluation not included", &EpochRow::seconds},
        {"images_per_second", "images/s", "training images of all ranks per second", &EpochRow::images_per_second},
        {"loss", "nat", "training loss (cross-entropy, mean over these images, from the steps that trained on them)",
         &EpochRow::loss},
        {"accuracy", "1", "training accuracy over these images, as a fraction", &EpochRow::accuracy},
        {"top5_accuracy", "1", "those of these images whose label is among the five best classes, as a fraction",
         &EpochRow::top5_accuracy},
    };
};

template <> struct Table<RankRow> {
    static constexpr const char *group = "ranks", *kind = "rank";
    static constexpr Column<RankRow> columns[] = {
        {"rank", "1", "rank, from 0", &RankRow::rank},
        {"host", "none", "host name", &RankRow::host},
        {"device", "none", "device the rank computes on", &RankRow::device},
        {"threads", "1", "processor threads of the rank", &RankRow::threads},
        {"placement", "none", "processors the rank's threads run on", &RankRow::placement},
        {"first_logical_rank", "1", "first of the logical ranks that the rank computes; itself without --virtual-ranks",
         &RankRow::first_logical_rank},
        {"logical_ranks", "1", "logical ranks that the rank computes", &RankRow::logical_ranks},
    };
};

template <> struct Table<RankEpochRow> {
    static constexpr const char *group = "rank_epochs", *kind = "rank_epoch";
    static constexpr Column<RankEpochRow> columns[] = {
        {"epoch", "1", "epoch, from 1", &RankEpochRow::epoch},
        {"rank", "1", "rank, from 0", &RankEpochRow::rank},
        {"data_seconds", "s", "time of the rank preparing batches in the epoch", &RankEpochRow::data_seconds},
        {"compute_seconds", "s", "time of the rank computing in the epoch", &RankEpochRow::compute_seconds},
        {"collective_wait_seconds", "s", "time of the rank waiting in collectives in the epoch",
         &RankEpochRow::collective_wait_seconds},
        {"images", "1", "training images of the rank in this row", &RankEpochRow::images},
        {"loss", "nat",
         "training loss (cross-entropy, mean over the rank's images, from the steps that trained on them)",
         &RankEpochRow::loss},
        {"accuracy", "1", "training accuracy over the rank's images, as a fraction", &RankEpochRow::accuracy},
    };
};

template <> struct Table<SystemRow> {
    static constexpr const char *group = "system", *kind = "system";
    static constexpr Column<SystemRow> columns[] = {
        {"time", "seconds since 1970-01-01T00:00:00Z",
         "end of the interval that the row averages: one second in the first minute, then ten seconds",
         &SystemRow::time},
        {"rank", "1", "rank, from 0", &SystemRow::rank},
        {"utilisation", "1", "busy part of the rank's GPU, or of its processor threads", &SystemRow::utilisation},
        {"memory_bytes", "byte", "memory in use on the GPU, or by the process", &SystemRow::memory_bytes},
        {"power_watts", "W", "power the GPU draws", &SystemRow::power_watts},
        {"clock_hz", "Hz", "clock of the GPU's multiprocessors", &SystemRow::clock_hz},
        {"temperature_celsius", "degC", "temperature of the GPU", &SystemRow::temperature_celsius},
    };
};

template <> struct Table<EventRow> {
    static constexpr const char *group = "events", *kind = "event";
    static constexpr Column<EventRow> columns[] = {
        {"time", "seconds since 1970-01-01T00:00:00Z", "time of the event", &EventRow::time},
        {"iso_time", "none", "time of the event, UTC", &EventRow::iso_time},
        {"step", "1", "optimizer steps done", &EventRow::step},
        {"kind", "none", "start, restart, checkpoint, warning, stop, done, ...", &EventRow::kind},
        {"message", "none", "what happened", &EventRow::message},
    };
};

}  // namespace convoy
