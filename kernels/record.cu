// What frames a step: requests of the host, marks of time, the row of the metrics ring, and the
// counters.
#include "kernels/kernels.h"
#include "kernels/launch.cuh"

namespace convoy::kernels {
namespace {

__global__ void write_time(uint64_t* when) { *when = device_time(); }

__global__ void copy_requests(const volatile int* requests, BatchStats* stats) {  // the host may write at any time
    stats->stop = float(requests[0]);
    stats->checkpoint = float(requests[1]);
    stats->hold = float(requests[2]);
}

__device__ double seconds(uint64_t from, uint64_t to) { return double(to - from) * 1e-9; }

__global__ void write_record(const BatchStats* stats, const float* learning_rates, StepRecord* ring, int64_t ring_size,
                             Counters* counters, int64_t global_batch, const StepTimes* times) {
    const int64_t step = counters->step;
    StepRecord r;
    r.step = step + 1;
    r.loss = double(stats->loss_sum) / double(global_batch);
    r.accuracy = double(stats->correct) / double(global_batch);
    r.learning_rate = double(learning_rates[step]);
    r.step_seconds = seconds(times->started, device_time());
    r.data_seconds = seconds(times->started, times->gathered);
    r.comm_exposed_seconds = seconds(times->wait_began, times->wait_ended);
    r.stop = stats->stop > 0;
    r.checkpoint = stats->checkpoint > 0;
    r.hold = stats->hold > 0;
    r.skipped = stats->skipped > 0;
    ring[step % ring_size] = r;
    counters->step = step + 1;
    counters->offset += global_batch;
}

__global__ void add_totals(const BatchStats* stats, EvalTotals* totals, int64_t images, Counters* counters,
                           int64_t global_batch) {
    totals->loss_sum += double(stats->loss_sum);
    totals->correct += int64_t(stats->correct);
    totals->images += images;
    counters->offset += global_batch;
}

}  // namespace

void mark(uint64_t* when, cudaStream_t stream) { launch(write_time, dim3(1), dim3(1), 0, stream, when); }

void request(const int* requests, BatchStats* stats, cudaStream_t stream) {
    launch(copy_requests, dim3(1), dim3(1), 0, stream, requests, stats);
}

void record(const BatchStats* stats, const float* learning_rates, StepRecord* ring, int64_t ring_size,
            Counters* counters, int64_t global_batch, const StepTimes* times, cudaStream_t stream) {
    launch(write_record, dim3(1), dim3(1), 0, stream, stats, learning_rates, ring, ring_size, counters, global_batch,
           times);
}

void accumulate(const BatchStats* stats, EvalTotals* totals, int64_t images, Counters* counters, int64_t global_batch,
                cudaStream_t stream) {
    launch(add_totals, dim3(1), dim3(1), 0, stream, stats, totals, images, counters, global_batch);
}

}  // namespace convoy::kernels
