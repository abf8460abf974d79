build-nocuda/src/main.o: src/main.cpp src/base/version.h \
 src/cli/commands.h src/comm/comm.h src/base/error.h src/comm/activity.h \
 src/base/clock.h
src/base/version.h:
src/cli/commands.h:
src/comm/comm.h:
src/base/error.h:
src/comm/activity.h:
src/base/clock.h:
