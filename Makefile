# Convoy. `make run` trains, `make test` tests; both install what they need first. `make help` lists the rest.
#   make [V=1] [DEBUG=1] [SANITIZE=address,undefined] [MARCH=native] [ONEDNN=/path/to/onednn-3.x]
#        [CUDA=/path/to/toolkit, or empty: none] [CUDA_ARCHS="80 90"] [CUDNN_FRONTEND=/path/to/cudnn-frontend]

BUILD  ?= build
CXX    ?= g++
MPICXX ?= mpicxx
MPIRUN ?= mpirun
PYTHON ?= /usr/bin/python3
MARCH  ?= x86-64-v3
ONEDNN ?= .deps/onednn
CUDA   ?= /usr/local/cuda
CUDA_ARCHS     ?= 80 90
CUDNN_FRONTEND ?= .deps/cudnn-frontend
T      ?= *

Q := $(if $(V),,@)

# ---- flags -----------------------------------------------------------------------------------------------------------
OPT := $(if $(DEBUG),-O0 -g3,-O3 -g1) $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-omit-frame-pointer)
MPI_INCLUDE  := $(patsubst -I%,-isystem %,$(shell $(MPICXX) --showme:compile 2>/dev/null))
HDF5_CFLAGS  := $(patsubst -I%,-isystem %,$(shell pkg-config --cflags hdf5 2>/dev/null))
HDF5_LIBS    := $(shell pkg-config --libs hdf5 2>/dev/null)
# GCC 12 sees overlaps in std::string that are not there (its bug 105651).
WNO := $(if $(filter 12,$(shell $(CXX) -dumpversion 2>/dev/null)),-Wno-restrict)
# Sanitized, GCC 12 takes std::regex's members for uninitialised.
WNO += $(if $(SANITIZE),-Wno-maybe-uninitialized)
# Clang complains where it does not vectorise a loop marked simd, as in sanitized builds.
WNO += $(if $(findstring clang,$(CXX)),-Wno-pass-failed -Wno-unknown-warning-option)
CPPFLAGS += -Isrc -I. -DOMPI_SKIP_MPICXX $(MPI_INCLUDE) $(HDF5_CFLAGS) -isystem $(ONEDNN)/include
CXXFLAGS += -std=c++20 $(OPT) -march=$(MARCH) -fopenmp -Wall -Wextra -Wshadow -Werror $(WNO)
LDFLAGS  += $(OPT) -fopenmp -L$(ONEDNN)/lib
LDLIBS   += $(shell $(MPICXX) --showme:link 2>/dev/null | sed 's/-lmpi_cxx//') $(HDF5_LIBS) -lhdf5_hl -ldnnl -lboost_program_options -lhwloc -larchive -lcrypto -lz -ldl
# Where programs look for oneDNN: beside themselves, in a checkout that was moved as a whole, and where it was when they were built. Not in
# LDFLAGS: a checkout that is copied is not to be built anew.
RPATHS = -Wl,-rpath,'$$ORIGIN:$$ORIGIN/../$(ONEDNN)/lib:$(abspath $(ONEDNN))/lib$(if $(CUDA_ON),:$(abspath $(CUDA))/lib64)'

# ---- CUDA: src/backend/cuda and kernels/ are libconvoy_cuda.so, where the toolkit, cuDNN, NCCL and cudnn-frontend's headers are ----
# cuda_loaded.cpp opens it beside the executable, which so starts where CUDA's libraries are not. Without a toolkit: cuda_absent.cpp.
CUDA_NEEDS := $(if $(CUDA),$(CUDA)/bin/nvcc $(CUDA)/include/cudnn.h $(CUDA)/include/nccl.h $(CUDNN_FRONTEND)/include/cudnn_frontend.h)
CUDA_LACKS := $(filter-out $(wildcard $(CUDA_NEEDS)),$(CUDA_NEEDS))
CUDA_ON    := $(if $(CUDA_NEEDS),$(if $(CUDA_LACKS),,yes))
# A toolkit that is there but not complete is worth a word; no toolkit at all is not.
ifneq ($(and $(CUDA_LACKS),$(wildcard $(CUDA)/bin/nvcc)),)
ifeq ($(filter deps info clean help run data test test-gpu bench-gpu bench-peers record-cpu bundle,$(MAKECMDGOALS)),)
$(warning CUDA is left out: $(CUDA_LACKS) is missing (make deps fetches cudnn-frontend))
endif
endif
# winograd.cpp is GCC's: see winograd_absent.cpp.
CLANG   := $(shell echo | $(CXX) -dM -E -x c++ - 2>/dev/null | grep __clang__)
ABSENT  := src/backend/cuda/% src/backend/$(if $(CUDA_ON),cuda_absent.cpp,cuda_loaded.cpp) \
           src/backend/cpu/$(if $(CLANG),winograd.cpp,winograd_absent.cpp)
SOURCES := $(filter-out $(ABSENT),$(wildcard src/*.cpp src/*/*.cpp src/*/*/*.cpp))
OBJECTS := $(SOURCES:%.cpp=$(BUILD)/%.o)
ifdef CUDA_ON
KERNELS  := $(wildcard kernels/*.cu)
CUDA_SOURCES := $(wildcard src/backend/cuda/*.cpp)
CUDA_OBJECTS := $(CUDA_SOURCES:%.cpp=$(BUILD)/%.o) $(KERNELS:%.cu=$(BUILD)/%.o)
CUDA_BACKEND := $(BUILD)/libconvoy_cuda.so
NVCC     := $(CUDA)/bin/nvcc
# Machine code for each architecture, and PTX of the highest for what comes after it.
PTX_ARCH := $(shell printf '%s\n' $(CUDA_ARCHS) | sort -n | tail -n1)
GENCODE  := $(foreach a,$(CUDA_ARCHS),-gencode arch=compute_$a,code=sm_$a) -gencode arch=compute_$(PTX_ARCH),code=compute_$(PTX_ARCH)
NVCCFLAGS += -std=c++20 $(if $(DEBUG),-g -G,-O3 -lineinfo) -Isrc -I. $(GENCODE) -ccbin $(CXX) -Werror all-warnings -Xcompiler -Wall,-fPIC
# Of what is in a shared object.
PIC := -fPIC -fno-semantic-interposition
CUDA_FLAGS := -isystem $(CUDA)/include -isystem $(CUDNN_FRONTEND)/include -DCONVOY_CUDA_ARCHS='"$(CUDA_ARCHS)"'
# cudart is static: without a driver there is still somebody who says so.
# cuDNN opens NVRTC itself, by its name: it is needed, though nobody here calls it.
CUDA_LIBS  := -L$(CUDA)/lib64 -lcudnn -lnccl -Wl,--push-state,--no-as-needed -lnvrtc -Wl,--pop-state -lcudart_static -ldl -lrt -lpthread
endif
TESTS   := $(filter-out $(if $(CUDA_ON),,tests/cuda_%),$(wildcard tests/*.cpp))
TEST_OBJECTS := $(TESTS:%.cpp=$(BUILD)/%.o)
# What the test programs have of the executable's: the CUDA backend is linked into them (tests/cuda_linked.cpp), for tests of its parts.
TESTED  := $(filter-out %/src/main.o %/cuda_loaded.o,$(OBJECTS))

# ---- kernels on the host: g++ compiles every .cu against tests/fibers, which wants CUDA's headers and nothing else of it ----
FIBERS := $(BUILD)/tests/fibers/grid.o $(patsubst kernels/%.cu,$(BUILD)/tests/fibers/%.o,$(wildcard kernels/*.cu))
KERNEL_TESTS := $(filter $(BUILD)/tests/kernels_%,$(TEST_OBJECTS))
ifneq ($(if $(CUDA),$(wildcard $(CUDA)/include/cuda_fp16.h)),)
$(FIBERS) $(KERNEL_TESTS): CPPFLAGS += -isystem $(CUDA)/include
$(BUILD)/convoy_tests: $(FIBERS)
$(BUILD)/convoy_tests: LDLIBS += -lboost_context
else
TEST_OBJECTS := $(filter-out $(KERNEL_TESTS),$(TEST_OBJECTS))
endif
$(BUILD)/tests/fibers/%.o: kernels/%.cu $(BUILD)/flags
	@mkdir -p $(@D)
	@echo c++ $< for the host
	$(Q)$(CXX) $(CPPFLAGS) $(CXXFLAGS) -include tests/fibers/cuda_on_host.h -MMD -MP -c -o $@ -x c++ $<
-include $(FIBERS:.o=.d)

# ---- the whole CUDA backend on the host: its own sources over a made-up runtime and cuDNN (tests/emulated), with kernels as fibers ----
ifdef CUDA_ON
EMULATED := $(BUILD)/tests/fibers/grid.o $(patsubst %.cpp,$(BUILD)/%.o,$(wildcard tests/emulated/*.cpp)) $(KERNELS:%.cu=$(BUILD)/tests/emulated/%.o)
EMULATED_OBJECTS := $(filter-out $(BUILD)/kernels/% %/cudnn_graph.o,$(CUDA_OBJECTS)) $(EMULATED)
$(EMULATED): CPPFLAGS += $(CUDA_FLAGS)
$(EMULATED): CXXFLAGS += $(PIC)
$(BUILD)/tests/emulated/%.o: CXXFLAGS += -O2
$(BUILD)/tests/emulated/cudnn.o: CXXFLAGS += -O3 -ffast-math -fno-finite-math-only
$(BUILD)/tests/emulated/kernels/%.o: kernels/%.cu $(BUILD)/flags
	@mkdir -p $(@D)
	@echo c++ $< for the emulated device
	$(Q)$(CXX) $(CPPFLAGS) $(CXXFLAGS) -DCONVOY_EMULATED -include tests/fibers/cuda_on_host.h -MMD -MP -c -o $@ -x c++ $<
# The same executable, beside another shared object.
$(BUILD)/emulated/convoy: $(BUILD)/convoy $(BUILD)/emulated/libconvoy_cuda.so
	@cp $< $@
$(BUILD)/emulated/libconvoy_cuda.so: $(EMULATED_OBJECTS)
	@mkdir -p $(@D)
	@echo link $@
	$(Q)$(CXX) $(LDFLAGS) -shared -o $@ $^ -lboost_context
$(BUILD)/emulated/convoy_tests: $(TESTED) $(EMULATED_OBJECTS) $(filter-out $(KERNEL_TESTS) %/cuda_plan_test.o,$(TEST_OBJECTS))
	@mkdir -p $(@D)
	@echo link $@
	$(Q)$(CXX) $(LDFLAGS) $(RPATHS) -o $@ $^ $(LDLIBS) -lgtest -lboost_context
emulated: $(BUILD)/emulated/convoy $(BUILD)/emulated/convoy_tests
-include $(EMULATED:.o=.d)
endif

# mpirun refuses to start as root, and in a container there is nothing else.
ifeq ($(shell id -u),0)
export OMPI_ALLOW_RUN_AS_ROOT := 1
export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM := 1
endif

.DEFAULT_GOAL := all
.PHONY: all deps info run test test-programs emulated test-faults test-sanitized fuzz test-jobs test-pbs test-gpu bench-gpu bench-peers record-cpu bundle data format clean help FORCE
all: $(BUILD)/convoy

# -rdynamic: the CUDA backend uses the executable's functions.
$(BUILD)/convoy: $(OBJECTS) | $(CUDA_BACKEND)
	@echo link $@
	$(Q)$(CXX) $(LDFLAGS) $(RPATHS) $(if $(CUDA_ON),-rdynamic) -o $@ $^ $(LDLIBS)

$(BUILD)/libconvoy_cuda.so: $(CUDA_OBJECTS)
	@echo link $@
	$(Q)$(CXX) $(LDFLAGS) $(RPATHS) -shared -Wl,--exclude-libs,ALL -o $@ $^ $(CUDA_LIBS)

$(BUILD)/convoy_tests: $(TESTED) $(CUDA_OBJECTS) $(TEST_OBJECTS)
	@echo link $@
	$(Q)$(CXX) $(LDFLAGS) $(RPATHS) -o $@ $^ $(LDLIBS) $(CUDA_LIBS) -lgtest

$(BUILD)/%.o: %.cpp $(BUILD)/flags
	@mkdir -p $(@D)
	@echo c++ $<
	$(Q)$(CXX) $(CPPFLAGS) $(CXXFLAGS) -MMD -MP -c -o $@ $<

# nvcc compiles kernels/ and nothing else.
$(BUILD)/%.o: %.cu $(BUILD)/flags
	@mkdir -p $(@D)
	@echo nvcc $<
	$(Q)$(NVCC) $(NVCCFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/src/backend/cuda/%.o: CPPFLAGS += $(CUDA_FLAGS)
$(BUILD)/src/backend/cuda/%.o: CXXFLAGS += $(PIC)
# Only reads and writes descriptors: its headers take long enough without optimisation.
$(BUILD)/src/backend/cuda/cudnn_graph.o: CXXFLAGS += -O1
# System headers are in no dependency file.
$(BUILD)/src/backend/cuda/cudnn_graph.o: $(CUDNN_FRONTEND)/include/cudnn_frontend_version.h
$(BUILD)/tests/cuda_%.o: CPPFLAGS += $(CUDA_FLAGS)

# GCC 12 takes the undefined halves of its own AVX-512 intrinsics for a mistake of ours (its bug 105593).
$(BUILD)/src/backend/cpu/winograd.o: CXXFLAGS += -Wno-uninitialized -Wno-maybe-uninitialized

# Tests are many, and what must be fast in them is in src.
$(BUILD)/tests/%.o: CXXFLAGS += -O1

# The stamp changes when the flags do, and then everything is rebuilt.
FLAGS := $(subst ',,$(CXX) $(CPPFLAGS) $(CXXFLAGS) $(LDFLAGS) $(LDLIBS) $(CUDA_LIBS) $(CUDA_FLAGS) $(NVCCFLAGS) $(PIC))
$(BUILD)/flags: FORCE
	@mkdir -p $(@D); echo '$(FLAGS)' | cmp -s - $@ || echo '$(FLAGS)' > $@

# The commit goes into every shard and metric file; only these depend on it.
COMMIT := $(shell git describe --always --dirty --abbrev=12 2>/dev/null || echo unknown)
$(BUILD)/commit: FORCE
	@mkdir -p $(@D); echo '$(COMMIT)' | cmp -s - $@ || echo '$(COMMIT)' > $@
OF_COMMIT := $(BUILD)/src/base/version.o $(BUILD)/src/backend/cuda/entry.o
$(OF_COMMIT): CPPFLAGS += -DCONVOY_COMMIT='"$(COMMIT)"'
$(OF_COMMIT): $(BUILD)/commit

-include $(OBJECTS:.o=.d) $(CUDA_OBJECTS:.o=.d) $(TEST_OBJECTS:.o=.d)

# ---- what it needs ---------------------------------------------------------------------------------------------------
deps:
	@CUDA='$(CUDA)' CUDNN_FRONTEND='$(CUDNN_FRONTEND)' ONEDNN='$(ONEDNN)' bash .ci/deps.sh install

info:
	@CUDA='$(CUDA)' CUDA_ARCHS='$(CUDA_ARCHS)' CUDNN_FRONTEND='$(CUDNN_FRONTEND)' ONEDNN='$(ONEDNN)' MPICXX='$(MPICXX)' PYTHON='$(PYTHON)' bash .ci/deps.sh info

# ---- use -------------------------------------------------------------------------------------------------------------
run: deps
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@BUILD="$(BUILD)" PYTHON="$(PYTHON)" bash input/run.sh $(ARGS)

data: deps
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@BUILD="$(BUILD)" bash input/fetch.sh

# Made by another make: only behind deps is it known whether there is all that CUDA needs.
test-programs: $(BUILD)/convoy $(BUILD)/convoy_tests $(if $(CUDA_ON),emulated)
test: deps
	@$(MAKE) --no-print-directory -j$$(nproc) test-programs
	@BUILD='$(BUILD)' PYTHON='$(PYTHON)' bash tests/run.sh '$(T)'

# On a machine with a GPU; on one without a compiler, the bundle has the same commands.
test-gpu bench-gpu: deps
	@$(MAKE) --no-print-directory -j$$(nproc) $(BUILD)/convoy $(BUILD)/convoy_tests
	@BUILD='$(BUILD)' PYTHON='$(PYTHON)' bash tests/gpu.sh $(@:%-gpu=%)

# Beside PyTorch on the same two cores. PEER_PYTHON: a Python that has it, else .deps/peers, fetched at first use. PEER: another script with
# the options and the last line of tests/peers/torch_step.py. LINES from the command line only: a terminal may export its height under that name.
PEER_PYTHON ?=
PEER   ?= tests/peers/torch_step.py
ROUNDS ?= 2
bench-peers: deps
	@$(if $(PEER_PYTHON),,PYTHON='$(PYTHON)' bash .ci/deps.sh peers)
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@$(PYTHON) tests/bench_peers.py --convoy '$(BUILD)/convoy' --python '$(or $(PEER_PYTHON),.deps/peers/bin/python)' --peer '$(PEER)' \
	  --rounds '$(ROUNDS)' --lines '$(if $(findstring command line,$(origin LINES)),$(LINES))'

# The airbench94 recipe on the full CIFAR-10, from mpirun to the test accuracy, by seed.
DATA      ?=
SEEDS     ?= 1 2 3
RANKS     ?= 1
PRECISION ?= bf16
EPOCHS    ?=
record-cpu: deps
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@$(PYTHON) tests/record_cpu.py --convoy '$(BUILD)/convoy' --data '$(DATA)' --seeds '$(SEEDS)' --ranks '$(RANKS)' --precision '$(PRECISION)' \
	  --epochs '$(EPOCHS)'

bundle: deps
	@$(MAKE) --no-print-directory -j$$(nproc) $(BUILD)/convoy $(BUILD)/convoy_tests
	@BUILD='$(BUILD)' bash tests/bundle.sh

test-faults: deps
	@$(MAKE) --no-print-directory -j$$(nproc) $(BUILD)/convoy $(BUILD)/convoy_tests
	@CONVOY_LONG=1 BUILD='$(BUILD)' PYTHON='$(PYTHON)' bash tests/run.sh 'Faults*:Kill*:Resume*:Shard*:TrainerLoop*:*HostileFiles*:Run.ThirtyTwo*'

# The whole suite with address and undefined-behaviour checks; a part of it, slowly, for leaks; the threads that Convoy starts (checkpoints, watchdog, sampler)
# with the thread sanitizer.
test-sanitized: deps all
	@$(MAKE) --no-print-directory -j$$(nproc) BUILD=$(BUILD)-asan SANITIZE=address,undefined $(BUILD)-asan/convoy $(BUILD)-asan/convoy_tests
	@$(MAKE) --no-print-directory -j$$(nproc) BUILD=$(BUILD)-tsan SANITIZE=thread CUDA= $(BUILD)-tsan/convoy
	@BUILD='$(BUILD)-asan' PYTHON='$(PYTHON)' ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 bash tests/run.sh '$(T)'
	@BUILD='$(BUILD)-asan' PYTHON='$(PYTHON)' ASAN_OPTIONS=detect_leaks=1:fast_unwind_on_malloc=0 \
	  LSAN_OPTIONS="suppressions=$(CURDIR)/tests/lsan.supp:print_suppressions=0" bash tests/run.sh 'Shards*:TrainerLoop*:ModelFile*:SystemSampler*:MetricsTest.C*'
	@dir=$$(mktemp -d) && trap "rm -rf $$dir" EXIT && \
	  $(BUILD)/convoy convert synthetic --images 60 --test-images 20 --size 28x28x1 --classes 10 --to $$dir/data >/dev/null && \
	  TSAN_OPTIONS="suppressions=$(CURDIR)/tests/tsan.supp" mpirun -np 2 --bind-to none $(BUILD)-tsan/convoy train --threads 1 --data $$dir/data \
	  --model mnist-conv --batch-size 4 --epochs 40 --checkpoint-every 3 --log-interval 1 --output $$dir/run >/dev/null && echo no data race

# libFuzzer against one reader of files from elsewhere (tests/fuzz_readers.h), built with clang. What it finds belongs in tests/fuzz/inputs.
READER  ?= shard
SECONDS ?= 600
FUZZ_OBJECTS := $(filter-out $(BUILD)/src/main.o,$(OBJECTS)) $(patsubst %,$(BUILD)/tests/%.o,fuzz/main fuzz_readers fuzz_hdf5 support)
$(BUILD)/convoy_fuzz: $(FUZZ_OBJECTS)
	@echo link $@
	$(Q)$(CXX) $(LDFLAGS) -fsanitize=fuzzer -o $@ $^ $(LDLIBS)

fuzz: deps
	@bash .ci/deps.sh install fuzz
	@$(MAKE) --no-print-directory -j$$(nproc) BUILD=$(BUILD)-fuzz CXX=clang++-16 CUDA= SANITIZE=fuzzer-no-link,address,undefined $(BUILD)-fuzz/convoy_fuzz
	@mkdir -p $(BUILD)-fuzz/$(READER)
	@READER=$(READER) ASAN_OPTIONS=detect_leaks=0 $(BUILD)-fuzz/convoy_fuzz -max_total_time=$(SECONDS) -timeout=10 -rss_limit_mb=1024 -max_len=20000 \
	  -print_final_stats=1 -artifact_prefix=$(BUILD)-fuzz/$(READER)- $(BUILD)-fuzz/$(READER) tests/fuzz/inputs/$(READER)

# The scripts in jobs/ on a real Slurm of four emulated nodes, and on emulated hosts: needs root.
test-jobs: deps
	@bash .ci/deps.sh install jobs
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@BUILD='$(BUILD)' PYTHON='$(PYTHON)' bash tests/jobs/run.sh

# The PBS scripts on a PBS server, a user's own or an emulated one; tests/jobs/pbs.py says what the other PBS_ variables are.
test-pbs: all
	@cd tests/jobs && BUILD='$(BUILD)' PBS_PREFIX='$(PBS_PREFIX)' $(PYTHON) -W error::ResourceWarning -m unittest --verbose openpbs_test

format:
	clang-format -i $(SOURCES) $(CUDA_SOURCES) $(TESTS) $(wildcard src/*/*.h src/*/*/*.h tests/*.h tests/fibers/* kernels/*)

clean:
	rm -rf $(BUILD)

help:
	@echo 'make            build $(BUILD)/convoy, and where CUDA is $(BUILD)/libconvoy_cuda.so, which is its backend for GPUs'
	@echo 'make deps       install what is missing (root), or say what is missing'
	@echo 'make info       every dependency: version, where'
	@echo 'make run        train on input/cifar10 if it is there, else on the sample in input/'
	@echo 'make data       fetch CIFAR-10 and convert it to input/cifar10'
	@echo 'make test       all tests; T=pattern for some, as in T="Golden.*"'
	@echo 'make test-gpu   what needs a GPU; make bench-gpu measures on one; make emulated builds the CUDA backend over a made-up one'
	@echo 'make bench-peers   images/s beside PyTorch, as a table: ROUNDS=2 LINES="pyramidnet.*bf16" PEER_PYTHON=/path/to/python PEER=script'
	@echo 'make record-cpu   airbench94 on the full CIFAR-10, timed: DATA=archive-or-folder SEEDS="1 2 3" RANKS=1 PRECISION=bf16'
	@echo 'make bundle     $(BUILD)/convoy-bundle.tar.xz: for machines with a GPU and nothing else'
	@echo 'make test-faults   the long form of the fault tests: 50 killed ranks, 40 signals, 500 damaged files'
	@echo 'make test-sanitized   all tests with the address, leak and undefined-behaviour sanitizers; threads with the thread sanitizer'
	@echo 'make fuzz       READER=shard|checkpoint|model|idx|cifar10|recipe SECONDS=600: libFuzzer invents files for one reader'
	@echo 'make test-jobs     job scripts on a Slurm of four emulated nodes, and on emulated hosts (root)'
	@echo 'make test-pbs   PBS_PREFIX=/opt/pbs: the PBS scripts on a real PBS (tests/jobs/pbs.py: who submits where, and what may be cut off)'
	@echo 'make format     clang-format; make clean'
