build-nocuda/src/base/version.o: src/base/version.cpp src/base/version.h
src/base/version.h:
