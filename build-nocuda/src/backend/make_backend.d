build-nocuda/src/backend/make_backend.o: src/backend/make_backend.cpp \
 src/backend/backend.h src/backend/augment.h src/base/philox.h \
 src/base/host_device.h src/backend/update_rule.h src/base/tensor.h \
 src/base/error.h src/model/graph.h src/model/precision.h src/comm/comm.h \
 src/comm/activity.h src/base/clock.h
src/backend/backend.h:
src/backend/augment.h:
src/base/philox.h:
src/base/host_device.h:
src/backend/update_rule.h:
src/base/tensor.h:
src/base/error.h:
src/model/graph.h:
src/model/precision.h:
src/comm/comm.h:
src/comm/activity.h:
src/base/clock.h:
