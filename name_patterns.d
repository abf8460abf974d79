name_patterns.o: src/model/name_patterns.cpp src/model/name_patterns.h \
 src/model/graph.h src/base/tensor.h src/base/error.h src/base/text.h \
 src/base/shorten.h src/model/torch_names.h
src/model/name_patterns.h:
src/model/graph.h:
src/base/tensor.h:
src/base/error.h:
src/base/text.h:
src/base/shorten.h:
src/model/torch_names.h:
