accept_run_test.o: tests/runs/accept_run_test.cpp src/data/decode.h \
 src/base/tensor.h src/base/error.h src/base/text.h \
 tests/support/cluster.h tests/support/support.h
src/data/decode.h:
src/base/tensor.h:
src/base/error.h:
src/base/text.h:
tests/support/cluster.h:
tests/support/support.h:
