build-nocuda/src/cli/convert.o: src/cli/convert.cpp src/base/error.h \
 src/cli/command_line.h src/cli/commands.h src/data/decode.h \
 src/data/shard.h src/data/hdf5.h
src/base/error.h:
src/cli/command_line.h:
src/cli/commands.h:
src/data/decode.h:
src/data/shard.h:
src/data/hdf5.h:
