# Convoy. `make run` trains, `make test` tests; both install what they need first. `make help` lists the rest.
#   make [V=1] [DEBUG=1] [SANITIZE=address,undefined] [MARCH=native] [ONEDNN=/path/to/onednn-3.x] [CUDA=/path/to/toolkit]

BUILD  ?= build
CXX    ?= g++
MPICXX ?= mpicxx
MPIRUN ?= mpirun
PYTHON ?= /usr/bin/python3
MARCH  ?= x86-64-v3
ONEDNN ?= .deps/onednn
CUDA   ?= /usr/local/cuda
T      ?= *

Q := $(if $(V),,@)

# ---- flags -----------------------------------------------------------------------------------------------------------
OPT := $(if $(DEBUG),-O0 -g3,-O3 -g1) $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-omit-frame-pointer)
MPI_INCLUDE  := $(patsubst -I%,-isystem %,$(shell $(MPICXX) --showme:compile 2>/dev/null))
HDF5_CFLAGS  := $(patsubst -I%,-isystem %,$(shell pkg-config --cflags hdf5 2>/dev/null))
HDF5_LIBS    := $(shell pkg-config --libs hdf5 2>/dev/null)
# GCC 12 sees overlaps in std::string that are not there (its bug 105651).
WNO := $(if $(filter 12,$(shell $(CXX) -dumpversion 2>/dev/null)),-Wno-restrict)
CPPFLAGS += -Isrc -I. -DOMPI_SKIP_MPICXX $(MPI_INCLUDE) $(HDF5_CFLAGS) -isystem $(ONEDNN)/include
CXXFLAGS += -std=c++20 $(OPT) -march=$(MARCH) -fopenmp -Wall -Wextra -Wshadow -Werror $(WNO)
LDFLAGS  += $(OPT) -fopenmp -L$(ONEDNN)/lib -Wl,-rpath,'$$ORIGIN/../$(ONEDNN)/lib'
LDLIBS   += $(shell $(MPICXX) --showme:link 2>/dev/null | sed 's/-lmpi_cxx//') $(HDF5_LIBS) -lhdf5_hl -ldnnl -lboost_program_options -larchive -lcrypto -lz

SOURCES := $(wildcard src/*.cpp src/*/*.cpp src/*/*/*.cpp)
OBJECTS := $(SOURCES:%.cpp=$(BUILD)/%.o)
TESTS   := $(wildcard tests/*.cpp)
TEST_OBJECTS := $(TESTS:%.cpp=$(BUILD)/%.o)

# mpirun refuses to start as root, and in a container there is nothing else.
ifeq ($(shell id -u),0)
export OMPI_ALLOW_RUN_AS_ROOT := 1
export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM := 1
endif

.DEFAULT_GOAL := all
.PHONY: all deps info run test test-faults data format clean help FORCE
all: $(BUILD)/convoy

$(BUILD)/convoy: $(OBJECTS)
	@echo link $@
	$(Q)$(CXX) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(BUILD)/convoy_tests: $(filter-out $(BUILD)/src/main.o,$(OBJECTS)) $(TEST_OBJECTS)
	@echo link $@
	$(Q)$(CXX) $(LDFLAGS) -o $@ $^ $(LDLIBS) -lgtest

$(BUILD)/%.o: %.cpp $(BUILD)/flags
	@mkdir -p $(@D)
	@echo c++ $<
	$(Q)$(CXX) $(CPPFLAGS) $(CXXFLAGS) -MMD -MP -c -o $@ $<

# Tests are many, and what must be fast in them is in src.
$(BUILD)/tests/%.o: CXXFLAGS += -O1

# The stamp changes when the flags do, and then everything is rebuilt.
$(BUILD)/flags: FORCE
	@mkdir -p $(@D); echo '$(CXX) $(CPPFLAGS) $(CXXFLAGS) $(LDFLAGS) $(LDLIBS)' | cmp -s - $@ || \
	  echo '$(CXX) $(CPPFLAGS) $(CXXFLAGS) $(LDFLAGS) $(LDLIBS)' > $@

# The commit goes into every shard and metric file; only version.o depends on it.
COMMIT := $(shell git describe --always --dirty --abbrev=12 2>/dev/null || echo unknown)
$(BUILD)/commit: FORCE
	@mkdir -p $(@D); echo '$(COMMIT)' | cmp -s - $@ || echo '$(COMMIT)' > $@
$(BUILD)/src/base/version.o: CPPFLAGS += -DCONVOY_COMMIT='"$(COMMIT)"'
$(BUILD)/src/base/version.o: $(BUILD)/commit

-include $(OBJECTS:.o=.d) $(TEST_OBJECTS:.o=.d)

# ---- what it needs ---------------------------------------------------------------------------------------------------
deps:
	@bash .ci/deps.sh install

info:
	@CUDA='$(CUDA)' ONEDNN='$(ONEDNN)' MPICXX='$(MPICXX)' PYTHON='$(PYTHON)' bash .ci/deps.sh info

# ---- use -------------------------------------------------------------------------------------------------------------
run: deps
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@BUILD="$(BUILD)" PYTHON="$(PYTHON)" bash input/run.sh $(ARGS)

data: deps
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@BUILD="$(BUILD)" bash input/fetch.sh

test: deps
	@$(MAKE) --no-print-directory -j$$(nproc) $(BUILD)/convoy $(BUILD)/convoy_tests
	@BUILD='$(BUILD)' PYTHON='$(PYTHON)' bash tests/run.sh '$(T)'

test-faults: deps
	@$(MAKE) --no-print-directory -j$$(nproc) $(BUILD)/convoy $(BUILD)/convoy_tests
	@CONVOY_LONG=1 BUILD='$(BUILD)' PYTHON='$(PYTHON)' bash tests/run.sh 'Faults*:Kill*:Resume*:Shard*:TrainerLoop*'

format:
	clang-format -i $(SOURCES) $(TESTS) $(wildcard src/*/*.h src/*/*/*.h tests/*.h)

clean:
	rm -rf $(BUILD)

help:
	@echo 'make            build $(BUILD)/convoy'
	@echo 'make deps       install what is missing (root), or say what is missing'
	@echo 'make info       every dependency: version, where'
	@echo 'make run        train on input/cifar10 if it is there, else on the sample in input/'
	@echo 'make data       fetch CIFAR-10 and convert it to input/cifar10'
	@echo 'make test       all tests; T=pattern for some, as in T="Golden.*"'
	@echo 'make test-faults   the long form of the fault tests: 50 killed ranks, 40 signals, 400 damaged files'
	@echo 'make format     clang-format; make clean'
