build-nocuda/src/backend/cuda_absent.o: src/backend/cuda_absent.cpp \
 src/backend/backend.h src/backend/augment.h src/base/philox.h \
 src/base/host_device.h src/backend/update_rule.h src/base/tensor.h \
 src/base/error.h src/model/graph.h src/model/precision.h
src/backend/backend.h:
src/backend/augment.h:
src/base/philox.h:
src/base/host_device.h:
src/backend/update_rule.h:
src/base/tensor.h:
src/base/error.h:
src/model/graph.h:
src/model/precision.h:
