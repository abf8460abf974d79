input.o: src/accept/input.cpp src/accept/input.h src/accept/verdict.h \
 src/comm/comm.h src/base/error.h src/base/text.h src/comm/activity.h \
 src/base/clock.h src/base/quantile.h
src/accept/input.h:
src/accept/verdict.h:
src/comm/comm.h:
src/base/error.h:
src/base/text.h:
src/comm/activity.h:
src/base/clock.h:
src/base/quantile.h:
