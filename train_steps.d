train_steps.o: src/cli/train_steps.cpp src/cli/train_steps.h \
 src/cli/console.h src/cli/progress_lines.h src/cli/terminal.h \
 src/cli/log_file.h src/base/descriptor.h src/comm/activity.h \
 src/base/clock.h src/run/recorder.h src/base/redaction.h \
 src/run/configuration.h src/run/metrics.h src/run/metrics_file.h \
 src/run/metrics_rows.h src/run/metrics_lines.h src/train/run_files.h \
 src/base/held_place.h src/base/held_folder.h src/base/file_error.h \
 src/base/error.h src/base/text.h src/run/run_folder.h \
 src/train/checkpoint.h src/train/model_file.h src/data/hdf5.h \
 src/base/file_place.h src/model/models.h src/model/graph.h \
 src/base/tensor.h src/supply/preprocessing.h src/ops/augment.h \
 src/base/philox.h src/base/host_device.h src/base/resample.h \
 src/train/state.h src/backend/tensor_memory.h src/base/memory_budget.h \
 src/base/memory_limits.h src/ops/records.h src/base/image_place.h \
 src/ops/mix.h src/ops/update_rule.h src/run/run_writer.h \
 src/run/system_sampler.h src/backend/backend.h src/backend/feed.h \
 src/backend/tape_builder.h src/ops/algorithms.h src/ops/tape.h \
 src/ops/exact_sums.h src/comm/host.h src/model/precision.h \
 src/ops/conv_by.h src/train/trainer.h src/train/epoch_summary.h \
 src/train/run_clock.h src/train/setup.h src/plan/schedule.h \
 src/plan/split.h src/train/evaluator.h src/comm/comm.h \
 src/supply/data_set.h src/comm/replicated.h src/comm/shared_block.h \
 src/data/shard.h src/base/file_limit.h src/data/decode.h \
 src/data/pixel_counts.h src/data/shard_ragged.h src/data/image_file.h \
 src/supply/placement.h src/supply/supply.h src/comm/exchange.h \
 src/supply/row_store.h src/plan/stream_order.h src/train/program.h \
 src/plan/buckets.h src/plan/memory.h src/train/training_programs.h \
 src/train/logical_ranks.h src/train/record_ring.h \
 src/train/state_snapshot.h src/cli/time_limit.h src/cli/train_options.h \
 src/cli/choices.h src/backend/cuda_queries.h src/base/nearest_name.h \
 src/cli/fine_tuning.h src/model/name_patterns.h src/cli/option_table.h \
 src/cli/help.h src/cli/option_values.h src/base/version.h \
 src/cli/auto_rate.h src/cli/option_effects.h src/cli/train_setup.h \
 src/cli/versions.h src/comm/launcher.h src/comm/preflight.h
src/cli/train_steps.h:
src/cli/console.h:
src/cli/progress_lines.h:
src/cli/terminal.h:
src/cli/log_file.h:
src/base/descriptor.h:
src/comm/activity.h:
src/base/clock.h:
src/run/recorder.h:
src/base/redaction.h:
src/run/configuration.h:
src/run/metrics.h:
src/run/metrics_file.h:
src/run/metrics_rows.h:
src/run/metrics_lines.h:
src/train/run_files.h:
src/base/held_place.h:
src/base/held_folder.h:
src/base/file_error.h:
src/base/error.h:
src/base/text.h:
src/run/run_folder.h:
src/train/checkpoint.h:
src/train/model_file.h:
src/data/hdf5.h:
src/base/file_place.h:
src/model/models.h:
src/model/graph.h:
src/base/tensor.h:
src/supply/preprocessing.h:
src/ops/augment.h:
src/base/philox.h:
src/base/host_device.h:
src/base/resample.h:
src/train/state.h:
src/backend/tensor_memory.h:
src/base/memory_budget.h:
src/base/memory_limits.h:
src/ops/records.h:
src/base/image_place.h:
src/ops/mix.h:
src/ops/update_rule.h:
src/run/run_writer.h:
src/run/system_sampler.h:
src/backend/backend.h:
src/backend/feed.h:
src/backend/tape_builder.h:
src/ops/algorithms.h:
src/ops/tape.h:
src/ops/exact_sums.h:
src/comm/host.h:
src/model/precision.h:
src/ops/conv_by.h:
src/train/trainer.h:
src/train/epoch_summary.h:
src/train/run_clock.h:
src/train/setup.h:
src/plan/schedule.h:
src/plan/split.h:
src/train/evaluator.h:
src/comm/comm.h:
src/supply/data_set.h:
src/comm/replicated.h:
src/comm/shared_block.h:
src/data/shard.h:
src/base/file_limit.h:
src/data/decode.h:
src/data/pixel_counts.h:
src/data/shard_ragged.h:
src/data/image_file.h:
src/supply/placement.h:
src/supply/supply.h:
src/comm/exchange.h:
src/supply/row_store.h:
src/plan/stream_order.h:
src/train/program.h:
src/plan/buckets.h:
src/plan/memory.h:
src/train/training_programs.h:
src/train/logical_ranks.h:
src/train/record_ring.h:
src/train/state_snapshot.h:
src/cli/time_limit.h:
src/cli/train_options.h:
src/cli/choices.h:
src/backend/cuda_queries.h:
src/base/nearest_name.h:
src/cli/fine_tuning.h:
src/model/name_patterns.h:
src/cli/option_table.h:
src/cli/help.h:
src/cli/option_values.h:
src/base/version.h:
src/cli/auto_rate.h:
src/cli/option_effects.h:
src/cli/train_setup.h:
src/cli/versions.h:
src/comm/launcher.h:
src/comm/preflight.h:
