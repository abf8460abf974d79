// The kernels that begin and end a step: requests of the host, times, the row of the metrics ring,
// and the counters.
#include "kernels/kernels.h"
#include "kernels/launch.cuh"

namespace convoy::kernels {
namespace {

__global__ void write_time(uint64_t* when) { *when = device_time(); }

__global__ void copy_requests(const volatile int* requests, BatchStats* stats, BatchStats* own) {
    stats->stop = requests ? float(requests[0]) : 0.0f;  // the host may write at any time
    stats->checkpoint = requests ? float(requests[1]) : 0.0f;
    stats->snapshot = requests ? float(requests[2]) : 0.0f;
    if (own) *own = *stats;
}

__device__ double seconds(uint64_t from, uint64_t to) { return double(to - from) * 1e-9; }

__global__ void write_record(Record record, const StepTimes* times) {
    const BatchStats& stats = *record.stats;
    const int64_t step = record.counters->step;
    const auto mean = [&](float sum) { return double(sum) / double(record.global_batch); };
    StepRecord r;
    r.step = step + 1;
    r.loss = mean(stats.loss_sum);
    r.accuracy = mean(stats.correct);
    r.top5_accuracy = mean(stats.top5);
    r.learning_rate = double(record.learning_rates[step]);
    r.step_seconds = seconds(times->started, device_time());
    r.data_seconds = seconds(times->started, times->gathered);
    r.comm_exposed_seconds = seconds(times->wait_began, times->wait_ended);
    r.stop = stats.stop > 0;
    r.checkpoint = stats.checkpoint > 0;
    r.snapshot = stats.snapshot > 0;
    r.skipped = stats.skipped > 0;
    r.images = record.global_batch;
    r.own_images = record.batch;
    for (int i = 0; record.own && i < record.own_count; ++i) r.own += record.own[i];
    record.ring[step % record.ring_size] = r;
    record.counters->step = step + 1;
    record.counters->offset += record.global_batch;
}

__global__ void add_totals(const BatchStats* stats, EvalTotals* totals, int64_t images, Counters* counters,
                           int64_t global_batch) {
    totals->loss_sum += double(stats->loss_sum);
    totals->correct += int64_t(stats->correct);
    totals->top5 += int64_t(stats->top5);
    totals->images += images;
    counters->offset += global_batch;
}

}  // namespace

void mark(uint64_t* when, cudaStream_t stream) { launch(write_time, dim3(1), dim3(1), 0, stream, when); }

void request(const int* requests, BatchStats* stats, BatchStats* own, cudaStream_t stream) {
    launch(copy_requests, dim3(1), dim3(1), 0, stream, requests, stats, own);
}

void record(const Record& r, const StepTimes* times, cudaStream_t stream) {
    launch(write_record, dim3(1), dim3(1), 0, stream, r, times);
}

void accumulate(const BatchStats* stats, EvalTotals* totals, int64_t images, Counters* counters, int64_t global_batch,
                cudaStream_t stream) {
    launch(add_totals, dim3(1), dim3(1), 0, stream, stats, totals, images, counters, global_batch);
}

}  // namespace convoy::kernels
