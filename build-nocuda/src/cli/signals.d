build-nocuda/src/cli/signals.o: src/cli/signals.cpp src/cli/signals.h \
 src/backend/backend.h src/backend/augment.h src/base/philox.h \
 src/base/host_device.h src/backend/update_rule.h src/base/tensor.h \
 src/base/error.h src/model/graph.h src/model/precision.h
src/cli/signals.h:
src/backend/backend.h:
src/backend/augment.h:
src/base/philox.h:
src/base/host_device.h:
src/backend/update_rule.h:
src/base/tensor.h:
src/base/error.h:
src/model/graph.h:
src/model/precision.h:
