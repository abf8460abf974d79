build-nocuda/src/base/durable.o: src/base/durable.cpp src/base/durable.h \
 src/base/error.h
src/base/durable.h:
src/base/error.h:
