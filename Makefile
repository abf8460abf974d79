# Convoy. `make run` trains, `make test` tests; both install what they need first. `make help` lists
# the rest.
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

# Make splits names at blanks; the checkout's own path may have some.
$(foreach v,BUILD CUDA ONEDNN CUDNN_FRONTEND,$(if $(word 2,$($v)),\
  $(error $v='$($v)': make takes paths apart at blanks; name a link without one)))
# The second part would be a path in the current folder.
$(foreach v,CUDA ONEDNN,$(if $(findstring :,$(abspath $($v))),\
  $(error $v='$(abspath $($v))': the loader takes paths apart at colons; build in a folder without one)))

# ---- flags ---------------------------------------------------------------------------------------
OPT := $(if $(DEBUG),-O0 -g3,-O3 -g1) $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-omit-frame-pointer)
MPI_INCLUDE  := $(patsubst -I%,-isystem %,$(shell $(MPICXX) --showme:compile 2>/dev/null))
HDF5_CFLAGS  := $(patsubst -I%,-isystem %,$(shell pkg-config --cflags hdf5 2>/dev/null))
HDF5_LIBS    := $(shell pkg-config --libs hdf5 2>/dev/null)
# GCC 12 warns about overlaps in std::string that do not exist (its bug 105651).
WNO := $(if $(filter 12,$(shell $(CXX) -dumpversion 2>/dev/null)),-Wno-restrict)
# In sanitized builds GCC 12 reports std::regex's members as uninitialised.
WNO += $(if $(SANITIZE),-Wno-maybe-uninitialized)
# Clang warns if it cannot vectorise a loop marked simd, as in sanitized builds.
WNO += $(if $(findstring clang,$(CXX)),-Wno-pass-failed -Wno-unknown-warning-option)
# Not -isystem /usr/include, which would hide the C library from the C++ library's own includes.
CPPFLAGS += -Isrc -I. -DOMPI_SKIP_MPICXX $(MPI_INCLUDE) $(HDF5_CFLAGS) \
            $(if $(filter-out /usr,$(ONEDNN)),-isystem $(ONEDNN)/include)
# Buffer overflows end the program, and addresses of functions cannot be overwritten. Some compilers
# define _FORTIFY_SOURCE themselves; it needs an optimizing build.
HARDEN := $(if $(DEBUG)$(SANITIZE),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2) -fstack-protector-strong
CXXFLAGS += -std=c++20 $(OPT) $(HARDEN) -march=$(MARCH) -fopenmp -Wall -Wextra -Wshadow -Werror $(WNO)
LDFLAGS  += $(OPT) -fopenmp -Wl,-z,relro,-z,now -L$(ONEDNN)/lib
LDLIBS   += $(shell $(MPICXX) --showme:link 2>/dev/null | sed 's/-lmpi_cxx//') $(HDF5_LIBS) -lhdf5_hl -ldnnl \
            -lboost_program_options -lhwloc -larchive -ljpeg -lpng -ltiff -lwebpdemux -lwebp -lgif -lcrypto -lz -ldl
# The folder where programs look for oneDNN. It does not depend on where the program lies: in /tmp,
# anybody could put a library beside it. Not in LDFLAGS: a checkout that was moved is only linked
# again, not compiled.
RPATHS = -Wl,-rpath,'$(call in_quotes,$(abspath $(ONEDNN)))/lib$(if $(CUDA_ON),:$(call in_quotes,$(abspath $(CUDA)))/lib64)'
# Escapes text for use within single quotes of a shell.
in_quotes = $(subst ','\'',$1)

# ---- CUDA ----------------------------------------------------------------------------------------
# If the toolkit, cuDNN, NCCL and cudnn-frontend's headers are present, src/backend/cuda and
# kernels/ become libconvoy_cuda.so. cuda_loaded.cpp opens it beside the executable, which therefore
# starts without CUDA's libraries. If one of them is missing, cuda_absent.cpp is built instead.
CUDA_NEEDS := $(if $(CUDA),$(CUDA)/bin/nvcc $(CUDA)/include/cudnn.h $(CUDA)/include/nccl.h \
                      $(CUDNN_FRONTEND)/include/cudnn_frontend.h)
CUDA_LACKS := $(filter-out $(wildcard $(CUDA_NEEDS)),$(CUDA_NEEDS))
CUDA_ON    := $(if $(CUDA_NEEDS),$(if $(CUDA_LACKS),,yes))
# Warn about an incomplete toolkit, but not about a missing one.
ifneq ($(and $(CUDA_LACKS),$(wildcard $(CUDA)/bin/nvcc)),)
# These targets build nothing, or call make again, which warns.
ifeq ($(filter deps info clean help run data check test test-all test-gpu bench-gpu bench-peers bench-data \
               validate-predict predict-cpu record-cpu bundle,$(MAKECMDGOALS)),)
$(warning CUDA is left out: $(CUDA_LACKS) is missing (make deps fetches cudnn-frontend))
endif
endif
# winograd.cpp needs GCC: see winograd_absent.cpp.
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
# Machine code for each architecture, and PTX of the highest one for later GPUs.
PTX_ARCH := $(shell printf '%s\n' $(CUDA_ARCHS) | sort -n | tail -n1)
GENCODE  := $(foreach a,$(CUDA_ARCHS),-gencode arch=compute_$a,code=sm_$a) \
            -gencode arch=compute_$(PTX_ARCH),code=compute_$(PTX_ARCH)
NVCCFLAGS += -std=c++20 $(if $(DEBUG),-g -G,-O3 -lineinfo) -Isrc -I. $(GENCODE) -ccbin $(CXX) \
             -Werror all-warnings -Xcompiler -Wall,-fPIC
# Flags for code in a shared object.
PIC := -fPIC -fno-semantic-interposition
CUDA_INCLUDE := -isystem $(CUDA)/include -isystem $(CUDNN_FRONTEND)/include
CUDA_FLAGS := $(CUDA_INCLUDE) -DCONVOY_CUDA_ARCHS='"$(CUDA_ARCHS)"'
# cudart is linked statically, so that the program starts and can report a missing driver. cuDNN
# opens NVRTC itself, by name: it is needed, although our code does not call it.
CUDA_LIBS  := -L$(CUDA)/lib64 -lcudnn -lnccl -Wl,--push-state,--no-as-needed -lnvrtc -Wl,--pop-state \
              -lcudart_static -ldl -lrt -lpthread
endif
# hwloc, in mpirun, would ask X servers for GPUs, and any user of a node can answer in their place.
HWLOC_COMPONENTS ?= -gl
export HWLOC_COMPONENTS
# mpirun refuses to start as root, but a container may have no other user.
ifeq ($(shell id -u),0)
export OMPI_ALLOW_RUN_AS_ROOT := 1
export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM := 1
endif

.DEFAULT_GOAL := all
.PHONY: all deps info run tensorboard reframe check test test-rest test-all test-fresh test-container test-cuda12 \
        rehearse-slot test-programs emulated mistakes test-faults test-sanitized fuzz test-jobs test-pbs acceptance \
        test-gpu bench-gpu bench-peers test-interchange bench-data validate-predict predict-cpu record-cpu sass bundle \
        data format check-format tidy clean help FORCE
##@ Build and run
all: $(BUILD)/convoy ## build/convoy; with CUDA also build/libconvoy_cuda.so, its backend for GPUs

# -rdynamic: the CUDA backend uses the executable's functions.
$(BUILD)/convoy: $(OBJECTS) $(BUILD)/rpaths | $(CUDA_BACKEND)
	@echo link $@
	$(Q)$(CXX) $(LDFLAGS) $(RPATHS) $(if $(CUDA_ON),-rdynamic) -o $@ $(OBJECTS) $(LDLIBS)

$(BUILD)/libconvoy_cuda.so: $(CUDA_OBJECTS) $(BUILD)/rpaths
	@echo link $@
	$(Q)$(CXX) $(LDFLAGS) $(RPATHS) -shared -Wl,--exclude-libs,ALL -o $@ $(CUDA_OBJECTS) $(CUDA_LIBS)

$(BUILD)/%.o: %.cpp $(BUILD)/flags
	@mkdir -p $(@D)
	@echo c++ $<
	$(Q)$(CXX) $(CPPFLAGS) $(CXXFLAGS) -MMD -MP -c -o $@ $<

# nvcc compiles only kernels/.
$(BUILD)/%.o: %.cu $(BUILD)/flags
	@mkdir -p $(@D)
	@echo nvcc $<
	$(Q)$(NVCC) $(NVCCFLAGS) -MMD -MP -c -o $@ $<

# Not performance-critical: compile at -O1 to build faster.
$(BUILD)/src/cli/%.o $(BUILD)/src/report/%.o $(BUILD)/src/bench/%.o: CXXFLAGS += -O1
$(BUILD)/src/backend/cuda/%.o: CPPFLAGS += $(CUDA_FLAGS)
$(BUILD)/src/backend/cuda/%.o: CXXFLAGS += $(PIC)
# Only reads and writes descriptors: its headers take long enough without optimisation.
$(BUILD)/src/backend/cuda/cudnn_graph.o: CXXFLAGS += -O1
# System headers are in no dependency file.
$(BUILD)/src/backend/cuda/cudnn_graph.o: $(CUDNN_FRONTEND)/include/cudnn_frontend_version.h

# GCC 12 reports the undefined halves of AVX-512 intrinsics as our error (its bug 105593).
$(BUILD)/src/backend/cpu/winograd.o: CXXFLAGS += -Wno-uninitialized -Wno-maybe-uninitialized

# The stamp changes with the flags, and then everything is rebuilt.
FLAGS := $(subst ',,$(CXX) $(CPPFLAGS) $(CXXFLAGS) $(LDFLAGS) $(LDLIBS) $(CUDA_LIBS) $(CUDA_FLAGS) $(NVCCFLAGS) $(PIC))
# Programs are linked again when this changes.
$(BUILD)/rpaths: FORCE
	@mkdir -p $(@D); echo '$(call in_quotes,$(RPATHS))' | cmp -s - $@ || echo '$(call in_quotes,$(RPATHS))' > $@

$(BUILD)/flags: FORCE
	@mkdir -p $(@D); echo '$(FLAGS)' | cmp -s - $@ || echo '$(FLAGS)' > $@

# The commit goes into every shard and metric file; only these depend on it.
# Without tags: their names may hold shell code, and a fetch brings tags of other people.
COMMIT := $(shell git describe --always --dirty --abbrev=12 --exclude='*' 2>/dev/null || echo unknown)
override COMMIT := $(shell printf %s '$(call in_quotes,$(COMMIT))' | tr -cd 'A-Za-z0-9._+-')
$(BUILD)/commit: FORCE
	@mkdir -p $(@D); echo '$(COMMIT)' | cmp -s - $@ || echo '$(COMMIT)' > $@
OF_COMMIT := $(BUILD)/src/base/version.o $(BUILD)/src/backend/cuda/entry.o
$(OF_COMMIT): CPPFLAGS += -DCONVOY_COMMIT='"$(COMMIT)"'
$(OF_COMMIT): $(BUILD)/commit

# The executable looks for its scripts here if it lies outside of the checkout. The path is not
# among the flags that rebuild everything, because copying a checkout must not rebuild it.
$(BUILD)/src/base/project.o: CPPFLAGS += -DCONVOY_SOURCES='"$(call in_quotes,$(subst ",\",$(subst \,\\,$(CURDIR))))"'

-include $(OBJECTS:.o=.d) $(CUDA_OBJECTS:.o=.d)

# ---- dependencies --------------------------------------------------------------------------------
deps: ## install what is missing (root), or say what is missing
	@CUDA='$(CUDA)' CUDNN_FRONTEND='$(CUDNN_FRONTEND)' ONEDNN='$(ONEDNN)' bash .ci/deps.sh install

info: ## every dependency: version, place
	@CUDA='$(CUDA)' CUDA_ARCHS='$(CUDA_ARCHS)' CUDNN_FRONTEND='$(CUDNN_FRONTEND)' ONEDNN='$(ONEDNN)' \
	  MPICXX='$(MPICXX)' PYTHON='$(PYTHON)' bash .ci/deps.sh info

# ---- use -----------------------------------------------------------------------------------------
run: ## train on input/cifar10 if it is there, else on the sample; ARGS=
	@BUILD="$(BUILD)" bash input/run.sh plan
	@$(MAKE) --no-print-directory deps
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@BUILD="$(BUILD)" PYTHON="$(PYTHON)" bash input/run.sh $(ARGS)

data: deps ## fetch CIFAR-10 (170 MB) and convert it to input/cifar10
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@BUILD="$(BUILD)" bash input/fetch.sh

include tests/tests.mk

##@ Style
# Tools of fixed versions, fetched into .deps/style.
format: ## put the form of sources and prose right
	@PYTHON='$(PYTHON)' bash .ci/style.sh format

check-format: ## say what format would change
	@PYTHON='$(PYTHON)' bash .ci/style.sh check

tidy: ## clang-tidy; T=src/train/trainer.cpp for some files
	@PYTHON='$(PYTHON)' TIDY_FLAGS='$(CPPFLAGS) -std=c++20 -march=$(MARCH) -fopenmp $(CUDA_INCLUDE) -DCONVOY_CUDA_ARCHS="" -DCONVOY_COMMIT=""' \
	  bash .ci/style.sh tidy $(if $(filter *,$(T)),$(SOURCES) $(CUDA_SOURCES),$(T))

##@ Other
clean: ## remove build/
	@[ '$(BUILD)' = build ] || [ ! -e '$(BUILD)' ] || [ -e '$(BUILD)/flags' ] || \
	  { echo 'BUILD=$(BUILD) is not a folder that make has built in: name another, or leave BUILD out' >&2; exit 1; }
	rm -rf $(BUILD)

# A line of this list is what follows "##" in the line of a target, here and in tests/tests.mk.
help: ## this list
	@echo 'make [TARGET]   V=1, DEBUG=1, CUDA=path and the like: src/README.md'
	@awk -F ': *[^#]*## ' '/^##@/ { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z][a-z -]*:.*## / { printf "  %-15s %s\n", $$1, $$2 }' Makefile tests/tests.mk
