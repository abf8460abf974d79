build-nocuda/src/cli/console.o: src/cli/console.cpp src/cli/console.h \
 src/train/checkpoint.h src/train/model_file.h src/data/hdf5.h \
 src/base/error.h src/model/models.h src/model/graph.h src/base/tensor.h \
 src/train/state.h src/backend/backend.h src/backend/augment.h \
 src/base/philox.h src/base/host_device.h src/backend/update_rule.h \
 src/model/precision.h src/train/metrics.h src/train/trainer.h \
 src/base/clock.h src/plan/schedule.h src/plan/split.h \
 src/train/evaluator.h src/comm/comm.h src/comm/activity.h \
 src/train/data_set.h src/comm/replicated.h src/data/shard.h \
 src/data/decode.h src/train/program.h src/plan/buckets.h \
 src/plan/memory.h src/base/version.h src/cli/run_folder.h \
 src/cli/signals.h src/cli/versions.h
src/cli/console.h:
src/train/checkpoint.h:
src/train/model_file.h:
src/data/hdf5.h:
src/base/error.h:
src/model/models.h:
src/model/graph.h:
src/base/tensor.h:
src/train/state.h:
src/backend/backend.h:
src/backend/augment.h:
src/base/philox.h:
src/base/host_device.h:
src/backend/update_rule.h:
src/model/precision.h:
src/train/metrics.h:
src/train/trainer.h:
src/base/clock.h:
src/plan/schedule.h:
src/plan/split.h:
src/train/evaluator.h:
src/comm/comm.h:
src/comm/activity.h:
src/train/data_set.h:
src/comm/replicated.h:
src/data/shard.h:
src/data/decode.h:
src/train/program.h:
src/plan/buckets.h:
src/plan/memory.h:
src/base/version.h:
src/cli/run_folder.h:
src/cli/signals.h:
src/cli/versions.h:
