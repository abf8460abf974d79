safetensors.o: src/data/safetensors.cpp src/data/safetensors.h \
 src/data/input_bytes.h src/base/file_place.h src/base/held_folder.h \
 src/base/descriptor.h src/base/file_error.h src/base/error.h \
 src/base/text.h src/data/stored_tensor.h src/base/shorten.h
src/data/safetensors.h:
src/data/input_bytes.h:
src/base/file_place.h:
src/base/held_folder.h:
src/base/descriptor.h:
src/base/file_error.h:
src/base/error.h:
src/base/text.h:
src/data/stored_tensor.h:
src/base/shorten.h:
