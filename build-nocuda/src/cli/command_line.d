build-nocuda/src/cli/command_line.o: src/cli/command_line.cpp \
 src/cli/command_line.h src/base/error.h
src/cli/command_line.h:
src/base/error.h:
