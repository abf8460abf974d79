build-nocuda/src/cli/info.o: src/cli/info.cpp src/backend/backend.h \
 src/backend/augment.h src/base/philox.h src/base/host_device.h \
 src/backend/update_rule.h src/base/tensor.h src/base/error.h \
 src/model/graph.h src/model/precision.h src/base/version.h \
 src/cli/command_line.h src/cli/commands.h src/cli/versions.h \
 src/comm/comm.h src/comm/activity.h src/base/clock.h src/model/models.h
src/backend/backend.h:
src/backend/augment.h:
src/base/philox.h:
src/base/host_device.h:
src/backend/update_rule.h:
src/base/tensor.h:
src/base/error.h:
src/model/graph.h:
src/model/precision.h:
src/base/version.h:
src/cli/command_line.h:
src/cli/commands.h:
src/cli/versions.h:
src/comm/comm.h:
src/comm/activity.h:
src/base/clock.h:
src/model/models.h:
