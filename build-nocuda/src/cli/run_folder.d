build-nocuda/src/cli/run_folder.o: src/cli/run_folder.cpp \
 src/cli/run_folder.h src/train/checkpoint.h src/train/model_file.h \
 src/data/hdf5.h src/base/error.h src/model/models.h src/model/graph.h \
 src/base/tensor.h src/train/state.h src/backend/backend.h \
 src/backend/augment.h src/base/philox.h src/base/host_device.h \
 src/backend/update_rule.h src/model/precision.h
src/cli/run_folder.h:
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
