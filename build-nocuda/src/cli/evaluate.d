build-nocuda/src/cli/evaluate.o: src/cli/evaluate.cpp \
 src/cli/command_line.h src/cli/commands.h src/comm/comm.h \
 src/base/error.h src/comm/activity.h src/base/clock.h \
 src/train/evaluator.h src/train/data_set.h src/backend/backend.h \
 src/backend/augment.h src/base/philox.h src/base/host_device.h \
 src/backend/update_rule.h src/base/tensor.h src/model/graph.h \
 src/model/precision.h src/comm/replicated.h src/data/shard.h \
 src/data/decode.h src/data/hdf5.h src/train/program.h src/plan/buckets.h \
 src/plan/memory.h src/train/state.h src/train/model_file.h \
 src/model/models.h
src/cli/command_line.h:
src/cli/commands.h:
src/comm/comm.h:
src/base/error.h:
src/comm/activity.h:
src/base/clock.h:
src/train/evaluator.h:
src/train/data_set.h:
src/backend/backend.h:
src/backend/augment.h:
src/base/philox.h:
src/base/host_device.h:
src/backend/update_rule.h:
src/base/tensor.h:
src/model/graph.h:
src/model/precision.h:
src/comm/replicated.h:
src/data/shard.h:
src/data/decode.h:
src/data/hdf5.h:
src/train/program.h:
src/plan/buckets.h:
src/plan/memory.h:
src/train/state.h:
src/train/model_file.h:
src/model/models.h:
