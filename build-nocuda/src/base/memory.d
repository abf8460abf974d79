build-nocuda/src/base/memory.o: src/base/memory.cpp src/base/memory.h
src/base/memory.h:
