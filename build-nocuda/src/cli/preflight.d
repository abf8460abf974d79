build-nocuda/src/cli/preflight.o: src/cli/preflight.cpp \
 src/cli/preflight.h src/comm/comm.h src/base/error.h src/comm/activity.h \
 src/base/clock.h
src/cli/preflight.h:
src/comm/comm.h:
src/base/error.h:
src/comm/activity.h:
src/base/clock.h:
