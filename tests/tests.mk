# The test programs and their runners. tests/README.md says which command runs which tests.

TEST_FOLDERS := structure unit ops kernels cuda runs faults fuzz golden support
TESTS := $(filter-out tests/fuzz/main.cpp $(if $(CUDA_ON),,tests/cuda/%),$(wildcard tests/main.cpp $(TEST_FOLDERS:%=tests/%/*.cpp)))
TEST_OBJECTS := $(TESTS:%.cpp=$(BUILD)/%.o)
# Objects of the executable that the test programs contain. The CUDA backend is linked into them
# (tests/cuda/linked.cpp), for tests of its parts.
TESTED  := $(filter-out %/src/main.o %/cuda_loaded.o,$(OBJECTS))

# ---- kernels on the host: g++ compiles .cu against tests/kernels/fibers and CUDA's headers ----
FIBERS := $(BUILD)/tests/kernels/fibers/grid.o $(patsubst kernels/%.cu,$(BUILD)/tests/kernels/fibers/%.o,$(wildcard kernels/*.cu))
KERNEL_TESTS := $(filter $(BUILD)/tests/kernels/%,$(TEST_OBJECTS))
ifneq ($(if $(CUDA),$(wildcard $(CUDA)/include/cuda_fp16.h)),)
$(FIBERS) $(KERNEL_TESTS): CPPFLAGS += -isystem $(CUDA)/include
$(BUILD)/convoy_tests: $(FIBERS)
$(BUILD)/convoy_tests: LDLIBS += -lboost_context
else
TEST_OBJECTS := $(filter-out $(KERNEL_TESTS),$(TEST_OBJECTS))
endif
$(BUILD)/tests/kernels/fibers/%.o: kernels/%.cu $(BUILD)/flags
	@mkdir -p $(@D)
	@echo c++ $< for the host
	$(Q)$(CXX) $(CPPFLAGS) $(CXXFLAGS) -include tests/kernels/fibers/cuda_on_host.h -MMD -MP -c -o $@ -x c++ $<
-include $(FIBERS:.o=.d)

# ---- the whole CUDA backend on the host, with an emulated runtime and cuDNN (tests/emulated) ----
ifdef CUDA_ON
EMULATED := $(BUILD)/tests/kernels/fibers/grid.o $(patsubst %.cpp,$(BUILD)/%.o,$(wildcard tests/emulated/*.cpp)) $(KERNELS:%.cu=$(BUILD)/tests/emulated/%.o)
EMULATED_OBJECTS := $(filter-out $(BUILD)/kernels/% %/cudnn_graph.o,$(CUDA_OBJECTS)) $(EMULATED)
$(EMULATED): CPPFLAGS += $(CUDA_FLAGS)
$(EMULATED): CXXFLAGS += $(PIC)
$(BUILD)/tests/emulated/%.o: CXXFLAGS += -O2
$(BUILD)/tests/emulated/plan_loops.o: CXXFLAGS += -O3 -ffast-math -fno-finite-math-only
$(BUILD)/tests/emulated/kernels/%.o: kernels/%.cu $(BUILD)/flags
	@mkdir -p $(@D)
	@echo c++ $< for the emulated device
	$(Q)$(CXX) $(CPPFLAGS) $(CXXFLAGS) -DCONVOY_EMULATED -include tests/kernels/fibers/cuda_on_host.h -MMD -MP -c -o $@ -x c++ $<
# The same executable, beside another shared object.
$(BUILD)/emulated/convoy: $(BUILD)/convoy $(BUILD)/emulated/libconvoy_cuda.so
	@cp $< $@
# Make writes a list of objects ($(file ...)) before the first line of the recipe runs.
$(BUILD)/emulated/libconvoy_cuda.so $(BUILD)/emulated/convoy_tests: | $(BUILD)/emulated
$(BUILD)/emulated:
	@mkdir -p $@
$(BUILD)/emulated/libconvoy_cuda.so: $(EMULATED_OBJECTS)
	@echo link $@
	$(Q)$(CXX) $(LDFLAGS) -shared -o $@ $^ -lboost_context
$(BUILD)/emulated/convoy_tests: $(TESTED) $(EMULATED_OBJECTS) $(filter-out $(KERNEL_TESTS) %/cuda/plans_test.o %/cuda/chip_plans_test.o %/cuda/graphs_test.o,$(TEST_OBJECTS)) $(BUILD)/rpaths
	@echo link $@
	@$(file >$@.objects,$(filter %.o,$^))
	$(Q)$(CXX) $(LDFLAGS) $(RPATHS) -o $@ $(filter %.o,$^) $(LDLIBS) -lgtest -lboost_context
# The emulated driver's library, for tests that need it.
$(BUILD)/emulated/driver/libnvidia-ml.so.1: tests/emulated/driver/nvml.cpp $(BUILD)/flags
	@mkdir -p $(@D)
	$(Q)$(CXX) $(CXXFLAGS) $(PIC) -shared -o $@ $<
emulated: $(BUILD)/emulated/convoy $(BUILD)/emulated/convoy_tests $(BUILD)/emulated/driver/libnvidia-ml.so.1
-include $(EMULATED:.o=.d)
endif

# tests/structure reads the names of the objects.
$(BUILD)/convoy_tests: $(TESTED) $(CUDA_OBJECTS) $(TEST_OBJECTS) $(BUILD)/rpaths
	@echo link $@
	@$(file >$@.objects,$(filter %.o,$^))
	$(Q)$(CXX) $(LDFLAGS) $(RPATHS) -o $@ $(filter %.o,$^) $(LDLIBS) $(CUDA_LIBS) -lgtest

$(BUILD)/tests/cuda/%.o: CPPFLAGS += $(CUDA_FLAGS)

# There are many tests, and their speed depends on src.
$(BUILD)/tests/%.o $(BUILD)/tests/googletest.h.gch: CXXFLAGS += -O1
# The reference loops take most of the time of the op tests.
$(BUILD)/tests/ops/op_reference.o: CXXFLAGS += -O3
# The other objects include GoogleTest, which takes the compiler longer to read than most tests.
WITH_GOOGLETEST := $(filter-out %/op_reference.o,$(TEST_OBJECTS))
$(WITH_GOOGLETEST): $(BUILD)/tests/googletest.h.gch
# GCC 12 warns about its own std::string when that comes from a precompiled header.
$(WITH_GOOGLETEST): CXXFLAGS += $(if $(filter -Wno-restrict,$(WNO)),-Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)
$(WITH_GOOGLETEST): CPPFLAGS += -Winvalid-pch -Wno-error=invalid-pch -include $(BUILD)/tests/googletest.h
$(BUILD)/tests/googletest.h.gch: $(BUILD)/flags $(wildcard /usr/include/gtest/gtest.h)
	@mkdir -p $(@D)
	@echo '#include <gtest/gtest.h>' >$(BUILD)/tests/googletest.h
	@echo c++ gtest/gtest.h
	$(Q)$(CXX) $(CPPFLAGS) $(CXXFLAGS) -x c++-header -o $@ $(BUILD)/tests/googletest.h

-include $(TEST_OBJECTS:.o=.d)

# ---- commands ----
##@ Test
SINCE ?=
# mpirun would use /tmp/ompi.HOST.UID even if another user has made it, and delete what is there.
# Tests give their folders modes with which others could change them. As root, other users have to
# get into some of these.
WITH_OWN_FOLDER := folder=$$(mktemp -d /tmp/convoy-tests-XXXXXX); trap 'rm -rf "$$folder"' EXIT; \
  [ "$$(id -u)" != 0 ] || chmod 711 "$$folder"; export TMPDIR="$$folder"; \
  export OMPI_MCA_orte_tmpdir_base="$${OMPI_MCA_orte_tmpdir_base:-$$folder}" PRTE_MCA_prte_tmpdir_base="$${PRTE_MCA_prte_tmpdir_base:-$$folder}";
RUN_TESTS := $(WITH_OWN_FOLDER) BUILD='$(BUILD)' PYTHON='$(PYTHON)' SINCE='$(SINCE)' $(PYTHON) tests/run.py
# Made by a second make, because only after deps is it known whether everything for CUDA is there.
test-programs: $(BUILD)/convoy $(BUILD)/convoy_tests $(if $(CUDA_ON),emulated)
TIER_check := check
TIER_test := short
TIER_test-rest := rest
TIER_test-all := all
check: ## what to run after each edit: a minute
test: ## what a change usually breaks; T='Resume.*' for some, SINCE=main for what changed since
test-rest: ## the long tests, which make test leaves out, and a third of the nightly ones
test-all: ## every test
test-rest test-all: tensorboard reframe
tensorboard reframe: deps
	@PYTHON='$(PYTHON)' bash .ci/deps.sh $@
check test test-rest test-all: deps
	@$(MAKE) --no-print-directory -j$$(nproc) $(if $(filter check,$@),$(BUILD)/convoy $(BUILD)/convoy_tests,test-programs)
	@$(RUN_TESTS) '$(if $(filter *,$(T)),$(TIER_$@),$(T))'

# Bare Debians of each release, from `make run` on. tests/fresh.sh lists the other settings.
test-fresh: ## make run and make test in bare Debians (root; debootstrap)
	@[ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || bash .ci/deps.sh install fresh
	@BUILD='$(BUILD)' bash tests/fresh.sh

# The steps of the Dockerfile in a bare Debian, for machines without a container engine.
test-container: ## jobs/container/Dockerfile's steps in a bare Debian (root; debootstrap)
	@[ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || bash .ci/deps.sh install fresh
	@BUILD='$(BUILD)' bash tests/container.sh

# For GPUs that CUDA 13 has dropped.
test-cuda12: ## build with CUDA 12 for P100 to H100 in a bare Debian 13 (root; debootstrap)
	@[ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || bash .ci/deps.sh install fresh
	@BUILD='$(BUILD)' bash tests/cuda12.sh

# Runs on a machine with a GPU; on one without a compiler, the bundle has the same commands.
test-gpu: ## what needs a GPU
test-gpu bench-gpu: deps
	@$(MAKE) --no-print-directory -j$$(nproc) $(BUILD)/convoy $(BUILD)/convoy_tests
	@$(WITH_OWN_FOLDER) BUILD='$(BUILD)' PYTHON='$(PYTHON)' bash tests/cuda/gpu.sh $(@:%-gpu=%)

# Every stage of gpu_slot.sh, on the emulated device in a bare Debian; a test does the same here.
rehearse-slot: deps ## tests/gpu_slot.sh in a bare Debian (root; debootstrap)
	@[ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || bash .ci/deps.sh install fresh
	@$(MAKE) --no-print-directory -j$$(nproc) emulated
	@BUILD='$(BUILD)' bash tests/cuda/slot_rehearsal.sh bare

test-faults: deps ## long form of the fault tests: 50 killed ranks, 40 signals, 500 damaged files
	@$(MAKE) --no-print-directory -j$$(nproc) $(BUILD)/convoy $(BUILD)/convoy_tests
	@export CONVOY_LONG=1; $(RUN_TESTS) 'Faults*:DiskFaults*:*AcceptFaults*:AcceptRun.ABit*:AcceptRun.TheHost*:AcceptResume.AKilled*:Audit.*FlippedBit:Kill*:Resume*:Shard*:TrainerLoop*:*HostileFiles*:Run.ThirtyTwo*:ImageFolderKills*:ImageSources*:ConvertSummary*:Signals*:OddPaths*:MissingParts*:PlotStrangers*'

# Builds a copy of the sources that holds every mistake of tests/mistakes/mistakes.txt. A variable
# selects one.
mistakes: deps ## which tests notice planted mistakes; ONLY=3,17 FAST=yes
	@$(WITH_OWN_FOLDER) BUILD='$(BUILD)' PYTHON='$(PYTHON)' $(PYTHON) tests/mistakes/run.py --only '$(ONLY)' $(if $(FAST),--fast-only)

# The whole suite with address and undefined-behaviour checks. A part of it, slowly, for leaks. The
# threads that Convoy starts (checkpoints, watchdog, sampler) with the thread sanitizer.
test-sanitized: deps all ## all tests under sanitizers of addresses, leaks, behaviour and threads
	@$(MAKE) --no-print-directory -j$$(nproc) BUILD=$(BUILD)-asan SANITIZE=address,undefined $(BUILD)-asan/convoy $(BUILD)-asan/convoy_tests
	@$(MAKE) --no-print-directory -j$$(nproc) BUILD=$(BUILD)-tsan SANITIZE=thread CUDA= $(BUILD)-tsan/convoy
	@$(WITH_OWN_FOLDER) BUILD='$(BUILD)-asan' PYTHON='$(PYTHON)' ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
	  $(PYTHON) tests/run.py '$(if $(filter *,$(T)),all,$(T))'
	@$(WITH_OWN_FOLDER) BUILD='$(BUILD)-asan' PYTHON='$(PYTHON)' ASAN_OPTIONS=detect_leaks=1:fast_unwind_on_malloc=0 \
	  LSAN_OPTIONS="suppressions=$(CURDIR)/tests/support/lsan.supp:print_suppressions=0" \
	  $(PYTHON) tests/run.py 'Shards*:TrainerLoop*:ModelFile*:SystemSampler*:MetricsFiles.C*'
	@dir=$$(mktemp -d) && trap "rm -rf $$dir" EXIT && \
	  $(BUILD)/convoy convert synthetic --images 60 --test-images 20 --size 28x28x1 --classes 10 --to $$dir/data >/dev/null && \
	  TSAN_OPTIONS="suppressions=$(CURDIR)/tests/support/tsan.supp" OMPI_MCA_orte_tmpdir_base=$$dir mpirun -np 2 --bind-to none $(BUILD)-tsan/convoy train --threads 1 --data $$dir/data \
	  --model mnist-conv --batch-size 4 --epochs 40 --checkpoint-every 3 --log-interval 1 --output $$dir/run >/dev/null && echo no data race

# libFuzzer on one reader of files from elsewhere (tests/fuzz/readers.h), built with clang. Inputs
# that it finds belong in tests/fuzz/inputs.
READER  ?= shard
SECONDS ?= 600
FUZZ_OBJECTS := $(filter-out $(BUILD)/src/main.o,$(OBJECTS)) $(patsubst %,$(BUILD)/tests/%.o,fuzz/main fuzz/readers fuzz/pictures fuzz/weights fuzz/figures fuzz/hdf5 fuzz/hdf5_storage fuzz/hdf5_structure support/support support/images)
$(BUILD)/convoy_fuzz: $(FUZZ_OBJECTS)
	@echo link $@
	$(Q)$(CXX) $(LDFLAGS) -fsanitize=fuzzer -o $@ $^ $(LDLIBS)

fuzz: deps ## libFuzzer; READER=shard|ragged|image|archive|checkpoint|… SECONDS=600
	@bash .ci/deps.sh install fuzz
	@$(MAKE) --no-print-directory -j$$(nproc) BUILD=$(BUILD)-fuzz CXX=clang++-16 CUDA= SANITIZE=fuzzer-no-link,address,undefined $(BUILD)-fuzz/convoy_fuzz
	@mkdir -p $(BUILD)-fuzz/$(READER)
	@READER=$(READER) ASAN_OPTIONS=detect_leaks=0 $(BUILD)-fuzz/convoy_fuzz -max_total_time=$(SECONDS) -timeout=10 -rss_limit_mb=1024 -max_len=20000 \
	  -print_final_stats=1 -artifact_prefix=$(BUILD)-fuzz/$(READER)- $(BUILD)-fuzz/$(READER) tests/fuzz/inputs/$(READER)

# The scripts in jobs/ on a real Slurm of four emulated nodes, and on emulated hosts: needs root.
test-jobs: deps ## job scripts on an emulated Slurm and on emulated hosts (root)
	@bash .ci/deps.sh install jobs
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@BUILD='$(BUILD)' PYTHON='$(PYTHON)' bash tests/jobs/run.sh

# The job scripts on a PBS server, a user's own or an emulated one. tests/jobs/pbs.py documents the
# other PBS_ variables.
test-pbs: all ## job scripts on a real PBS; PBS_PREFIX=/opt/pbs, and see tests/jobs/pbs.py
	@cd tests/jobs && BUILD='$(BUILD)' PBS_PREFIX='$(PBS_PREFIX)' $(PYTHON) -W error::ResourceWarning -m unittest --verbose openpbs_test

# Convoy's runs of published PyTorch scripts, one line per row (tests/acceptance).
MNIST   ?=
CIFAR10 ?=
ONLY    ?=
PAGE    ?=
acceptance: deps ## the standard tests that Convoy replaces; SHORT=yes ONLY=row MNIST= CIFAR10= PAGE=
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@$(WITH_OWN_FOLDER) $(PYTHON) tests/acceptance/acceptance.py --convoy '$(BUILD)/convoy' --only '$(ONLY)' --mnist '$(MNIST)' --cifar10 '$(CIFAR10)' --page '$(PAGE)' $(if $(SHORT),--short)

##@ Measure
bench-gpu: ## speed on a GPU
# For any kernel: make sass SASS=build/kernels/pool.o SASS_ARCH=80; SASS_KERNELS takes an
# expression.
SASS ?= $(BUILD)/kernels/batchnorm.o $(BUILD)/kernels/batchnorm_gradient.o
SASS_ARCH ?= 90
SASS_KERNELS ?=
sass: $(if $(CUDA_ON),$(SASS)) ## registers and loads in flight of the norm kernels; SASS= SASS_ARCH= SASS_KERNELS=
	@$(if $(CUDA_ON),CUDA='$(CUDA)' $(PYTHON) -B tests/kernels/sass.py --arch sm_$(SASS_ARCH) --kernels '$(SASS_KERNELS)' $(SASS),echo 'skipped: no CUDA toolkit, so no kernels')
# Compares with PyTorch on the same two cores. PEER_PYTHON: a Python that has it; default:
# .deps/peers, fetched at first use. PEER: another script with the options and the last line of
# tests/peers/torch_step.py. LINES is read only from the command line, because a terminal may export
# its height under that name.
PEER_PYTHON ?=
PEER   ?= tests/peers/torch_step.py
test-interchange: deps ## models compute the same in PyTorch and onnxruntime, from and to them; PEER_PYTHON=
	@PYTHON='$(PYTHON)' PEER_PYTHON='$(PEER_PYTHON)' bash .ci/deps.sh peers $@ timm==1.0.31 onnx==1.23.2 onnxruntime==1.32.0
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@for script in torch import onnx fine_tuning; do \
	  echo "tests/interchange/$${script}_test.py"; \
	  BUILD='$(BUILD)' $(or $(PEER_PYTHON),.deps/peers/bin/python) -B tests/interchange/$${script}_test.py -v || exit 1; \
	done
ROUNDS ?= 2
bench-peers: deps ## images/s of Convoy and PyTorch alternately; ROUNDS= LINES= COMPILED= PEER_PYTHON= PEER=
	@$(if $(PEER_PYTHON),,PYTHON='$(PYTHON)' bash .ci/deps.sh peers $@)
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@$(WITH_OWN_FOLDER) $(PYTHON) tests/peers/bench_peers.py --convoy '$(BUILD)/convoy' --python '$(or $(PEER_PYTHON),.deps/peers/bin/python)' --peer '$(PEER)' \
	  --rounds '$(ROUNDS)' --lines '$(if $(findstring command line,$(origin LINES)),$(LINES))' $(if $(COMPILED),--compiled)

# Rates of reading data from files in the page cache, compared with pread and HDF5, and how long a
# training waits for data.
GIB ?=
$(BUILD)/convoy_reading: $(filter-out $(BUILD)/src/main.o,$(OBJECTS)) $(BUILD)/tests/peers/reading.o $(BUILD)/rpaths
	@echo link $@
	$(Q)$(CXX) $(LDFLAGS) $(RPATHS) -o $@ $(filter %.o,$^) $(LDLIBS)
-include $(BUILD)/tests/peers/reading.d
bench-data: deps ## how fast a data set is read, and what of it a training waits for; GIB= ROUNDS= ONLY=
	@$(MAKE) --no-print-directory -j$$(nproc) $(BUILD)/convoy $(BUILD)/convoy_reading
	@$(WITH_OWN_FOLDER) $(PYTHON) tests/peers/bench_data.py --convoy '$(BUILD)/convoy' --reading '$(BUILD)/convoy_reading' --gib '$(or $(GIB),0)' \
	  --only '$(ONLY)' --rounds '$(if $(findstring command line,$(origin ROUNDS)),$(ROUNDS),5)'

# Compares `convoy predict` with published measurements that it was not given.
$(BUILD)/convoy_sum_times: $(filter-out $(BUILD)/src/main.o,$(OBJECTS)) $(BUILD)/tests/peers/sum_times.o $(BUILD)/rpaths
	@echo link $@
	$(Q)$(CXX) $(LDFLAGS) $(RPATHS) -o $@ $(filter %.o,$^) $(LDLIBS)
-include $(BUILD)/tests/peers/sum_times.d
validate-predict: deps ## how far predictions are from published measurements; 1 if a bound is missed
	@$(MAKE) --no-print-directory -j$$(nproc) $(BUILD)/convoy $(BUILD)/convoy_sum_times
	@$(PYTHON) tests/peers/validate_predict.py --convoy '$(BUILD)/convoy' --sum-times '$(BUILD)/convoy_sum_times'

predict-cpu: deps ## how far predictions are for two CPU ranks of this machine; ROUNDS=
	@$(MAKE) --no-print-directory -j$$(nproc) $(BUILD)/convoy
	@$(WITH_OWN_FOLDER) $(PYTHON) tests/peers/predict_cpu.py --convoy '$(BUILD)/convoy' --rounds '$(if $(findstring command line,$(origin ROUNDS)),$(ROUNDS),3)'

# The airbench94 recipe on the full CIFAR-10, from mpirun to the test accuracy, by seed.
DATA      ?=
SEEDS     ?= 1 2 3
RANKS     ?= 1
PRECISION ?= bf16
EPOCHS    ?=
record-cpu: deps ## airbench94 on the full CIFAR-10, timed; DATA= SEEDS= RANKS= PRECISION=
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@$(WITH_OWN_FOLDER) $(PYTHON) tests/peers/record_cpu.py --convoy '$(BUILD)/convoy' --data '$(DATA)' --seeds '$(SEEDS)' --ranks '$(RANKS)' --precision '$(PRECISION)' \
	  --epochs '$(EPOCHS)'

##@ Elsewhere
emulated: ## the CUDA backend over an emulated GPU, into build/emulated
bundle: deps ## build/convoy-bundle.tar.xz, for machines with a GPU and no compiler
	@$(MAKE) --no-print-directory -j$$(nproc) $(BUILD)/convoy $(BUILD)/convoy_tests
	@BUILD='$(BUILD)' bash tests/cuda/bundle.sh
