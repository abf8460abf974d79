fingerprints.o: src/accept/fingerprints.cpp src/accept/fingerprints.h \
 src/accept/bits.h src/accept/devices.h src/backend/cuda_queries.h \
 src/backend/backend.h src/backend/feed.h src/ops/records.h \
 src/base/host_device.h src/base/image_place.h src/base/tensor.h \
 src/base/error.h src/base/text.h src/ops/mix.h src/ops/augment.h \
 src/base/philox.h src/base/resample.h src/ops/update_rule.h \
 src/backend/tape_builder.h src/model/graph.h src/ops/algorithms.h \
 src/ops/tape.h src/ops/exact_sums.h src/backend/tensor_memory.h \
 src/base/memory_budget.h src/base/memory_limits.h src/comm/host.h \
 src/model/precision.h src/ops/conv_by.h src/comm/comm.h \
 src/comm/activity.h src/base/clock.h src/accept/verdict.h \
 src/base/held_place.h src/base/held_folder.h src/base/descriptor.h \
 src/base/file_error.h src/base/durable.h src/base/input_file.h \
 src/base/shorten.h
src/accept/fingerprints.h:
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
src/base/held_place.h:
src/base/held_folder.h:
src/base/descriptor.h:
src/base/file_error.h:
src/base/durable.h:
src/base/input_file.h:
src/base/shorten.h:
