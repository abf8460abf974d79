bits.o: src/accept/bits.cpp src/accept/bits.h src/accept/devices.h \
 src/backend/cuda_queries.h src/backend/backend.h src/backend/feed.h \
 src/ops/records.h src/base/host_device.h src/base/image_place.h \
 src/base/tensor.h src/base/error.h src/base/text.h src/ops/mix.h \
 src/ops/augment.h src/base/philox.h src/base/resample.h \
 src/ops/update_rule.h src/backend/tape_builder.h src/model/graph.h \
 src/ops/algorithms.h src/ops/tape.h src/ops/exact_sums.h \
 src/backend/tensor_memory.h src/base/memory_budget.h \
 src/base/memory_limits.h src/comm/host.h src/model/precision.h \
 src/ops/conv_by.h src/comm/comm.h src/comm/activity.h src/base/clock.h \
 src/accept/verdict.h src/bench/made_up.h src/supply/data_set.h \
 src/comm/replicated.h src/comm/shared_block.h src/data/shard.h \
 src/base/file_limit.h src/data/decode.h src/data/hdf5.h \
 src/base/file_place.h src/base/held_folder.h src/base/descriptor.h \
 src/base/file_error.h src/data/pixel_counts.h src/data/shard_ragged.h \
 src/data/image_file.h src/supply/placement.h src/supply/preprocessing.h \
 src/supply/supply.h src/comm/exchange.h src/supply/row_store.h \
 src/plan/stream_order.h src/plan/split.h src/model/models.h \
 src/train/trainer.h src/train/checkpoint.h src/train/model_file.h \
 src/base/held_place.h src/train/state.h src/train/run_files.h \
 src/train/epoch_summary.h src/train/run_clock.h src/train/setup.h \
 src/plan/schedule.h src/train/evaluator.h src/train/program.h \
 src/plan/buckets.h src/plan/memory.h src/train/training_programs.h \
 src/train/logical_ranks.h src/train/record_ring.h \
 src/train/state_snapshot.h
src/accept/bits.h:
src/accept/devices.h:
src/backend/cuda_queries.h:
src/backend/backend.h:
src/backend/feed.h:
src/ops/records.h:
src/base/host_device.h:
src/base/image_place.h:
src/base/tensor.h:
src/base/error.h:
src/base/text.h:
src/ops/mix.h:
src/ops/augment.h:
src/base/philox.h:
src/base/resample.h:
src/ops/update_rule.h:
src/backend/tape_builder.h:
src/model/graph.h:
src/ops/algorithms.h:
src/ops/tape.h:
src/ops/exact_sums.h:
src/backend/tensor_memory.h:
src/base/memory_budget.h:
src/base/memory_limits.h:
src/comm/host.h:
src/model/precision.h:
src/ops/conv_by.h:
src/comm/comm.h:
src/comm/activity.h:
src/base/clock.h:
src/accept/verdict.h:
src/bench/made_up.h:
src/supply/data_set.h:
src/comm/replicated.h:
src/comm/shared_block.h:
src/data/shard.h:
src/base/file_limit.h:
src/data/decode.h:
src/data/hdf5.h:
src/base/file_place.h:
src/base/held_folder.h:
src/base/descriptor.h:
src/base/file_error.h:
src/data/pixel_counts.h:
src/data/shard_ragged.h:
src/data/image_file.h:
src/supply/placement.h:
src/supply/preprocessing.h:
src/supply/supply.h:
src/comm/exchange.h:
src/supply/row_store.h:
src/plan/stream_order.h:
src/plan/split.h:
src/model/models.h:
src/train/trainer.h:
src/train/checkpoint.h:
src/train/model_file.h:
src/base/held_place.h:
src/train/state.h:
src/train/run_files.h:
src/train/epoch_summary.h:
src/train/run_clock.h:
src/train/setup.h:
src/plan/schedule.h:
src/train/evaluator.h:
src/train/program.h:
src/plan/buckets.h:
src/plan/memory.h:
src/train/training_programs.h:
src/train/logical_ranks.h:
src/train/record_ring.h:
src/train/state_snapshot.h:
