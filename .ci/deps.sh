#!/usr/bin/env bash
# Convoy's dependencies for building and running. `install` installs them (apt and pip as root;
# otherwise it prints what is missing and the module that usually provides it). `install jobs`,
# `install fuzz`, `install fresh` and `install ci` also install what `make test-jobs`, `make fuzz`,
# `make test-fresh` and .ci/run need. `peers` fetches PyTorch for `make bench-peers` and `make
# test-interchange`, `tensorboard` the reader for tests of src/plot/to_tensorboard.py, and `reframe`
# what runs jobs/reframe/convoy.py. `info` prints what was found and where.
# Running `install` again changes nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-/usr/bin/python3} MPICXX=${MPICXX:-mpicxx} ONEDNN=${ONEDNN:-.deps/onednn}
CUDA=${CUDA-/usr/local/cuda} CUDNN_FRONTEND=${CUDNN_FRONTEND:-.deps/cudnn-frontend} CUDA_ARCHS=${CUDA_ARCHS:-80 90}
# Downloads go into these folders of the checkout, and into no other.
own_onednn=.deps/onednn own_frontend=.deps/cudnn-frontend
same() { [ "$(realpath -m -- "$1")" = "$(realpath -m -- "$2")" ]; }
! same "$ONEDNN" "$own_onednn" || ONEDNN=$own_onednn
! same "$CUDNN_FRONTEND" "$own_frontend" || CUDNN_FRONTEND=$own_frontend
export DEBIAN_FRONTEND=noninteractive
export PYTHONSAFEPATH=1 # otherwise -m and -c import from the current folder first

header() { echo "#include <$1>" | g++ -std=c++20 -E -x c++ ${2:-} - >/dev/null 2>&1; }
defines() {
  printf '#include <%s>\n#if !(%s)\n#error\n#endif\n' "$1" "$2" | g++ -std=c++20 -E -x c++ - >/dev/null 2>&1
}
mpi_flags() { "$MPICXX" --showme:compile 2>/dev/null || true; }
hdf5_flags() { pkg-config --cflags hdf5 2>/dev/null || true; }
links() { echo 'int main() {}' | g++ -x c++ - -o /dev/null "$@" 2>/dev/null; }
# Versions 1.18 to 1.32 ask cuDNN for sums in an integer or double type instead of float. cuDNN has
# few engines for them, or none. A user's own folder is not checked.
frontend_version=1.17.0
has_frontend() {
  test -e "$CUDNN_FRONTEND/include/cudnn_frontend.h" || return 1
  [ "$CUDNN_FRONTEND" != "$own_frontend" ] || [ "$(cat "$CUDNN_FRONTEND/VERSION" 2>/dev/null)" = "$frontend_version" ]
}
has_cuda() { [ -n "$CUDA" ] && [ -x "$CUDA/bin/nvcc" ]; }
python_has() { "$PYTHON" -c "import $1" 2>/dev/null; }

# name | Debian package | module on clusters | test that it is there
needs() {
  cat <<'TABLE'
C++20 compiler|g++|module load gcc (12 or newer)|command -v g++
GNU make|make|part of every development environment|command -v make
pkg-config|pkg-config|module load pkgconf|command -v pkg-config
git|git|module load git|command -v git
OpenMPI|libopenmpi-dev|module load openmpi|header mpi.h "$(mpi_flags)"
mpirun|openmpi-bin|module load openmpi|command -v mpirun
HDF5|libhdf5-dev|module load hdf5 (serial)|header hdf5.h "$(hdf5_flags)"
hwloc|libhwloc-dev|module load hwloc|header hwloc.h
h5dump|hdf5-tools|module load hdf5|command -v h5dump
Boost.Program_options|libboost-program-options-dev|module load boost|header boost/program_options.hpp
libarchive|libarchive-dev|conda install libarchive|header archive.h
libjpeg-turbo|libjpeg-dev|module load libjpeg-turbo|header jpeglib.h
libpng|libpng-dev|module load libpng|header png.h
libwebp|libwebp-dev|module load libwebp|header webp/demux.h
giflib|libgif-dev|module load giflib|header gif_lib.h
libtiff 4.5 or newer|libtiff-dev|module load libtiff|header tiffio.h && defines tiffio.h "TIFFLIB_VERSION >= 20221213"
zlib|zlib1g-dev|module load zlib|header zlib.h
OpenSSL|libssl-dev|module load openssl|header openssl/evp.h
nlohmann/json|nlohmann-json3-dev|conda install nlohmann_json|header nlohmann/json.hpp
GoogleTest|libgtest-dev|conda install gtest|header gtest/gtest.h
pip|python3-pip|module load python|python_has pip
h5py|python3-h5py|pip install h5py|python_has h5py
matplotlib|python3-matplotlib|pip install matplotlib|python_has matplotlib
Pillow|python3-pil|pip install pillow|python_has PIL
curl|curl|module load curl|command -v curl
Boost.Context|libboost-context-dev|module load boost|! test -e "$CUDA/include/cuda_fp16.h" || links -lboost_context
ip|iproute2|part of every Linux|PATH=$PATH:/usr/sbin command -v ip
pgrep|procps|part of every Linux|command -v pgrep
oneDNN 3.x|onednn (PyPI)|module load onednn, then make ONEDNN=prefix|test -e "$ONEDNN/include/oneapi/dnnl/dnnl.hpp"
cudnn-frontend|nvidia-cudnn-frontend (PyPI)|clone NVIDIA/cudnn-frontend, then make CUDNN_FRONTEND=clone|! has_cuda || has_frontend
TABLE
}

# For `make fuzz`.
fuzz_needs() {
  cat <<'TABLE'
clang 16|clang-16|module load llvm|command -v clang++-16
libFuzzer|libclang-rt-16-dev|module load llvm|ls /usr/lib/llvm-16/lib/clang/*/lib/linux/libclang_rt.fuzzer-x86_64.a
OpenMP of clang|libomp-16-dev|module load llvm|ls /usr/lib/llvm-16/lib/libomp.so
TABLE
}

# A scheduler on this machine, for `make test-jobs`.
jobs_needs() {
  cat <<'TABLE'
Slurm's controller|slurmctld|a test machine of your own|PATH=$PATH:/usr/sbin command -v slurmctld
Slurm's daemon|slurmd|a test machine of your own|PATH=$PATH:/usr/sbin command -v slurmd
sbatch|slurm-client|a test machine of your own|command -v sbatch
Slurm's PMIx|slurm-wlm-basic-plugins|a test machine of your own|ls /usr/lib/*/slurm*/mpi_pmix.so
Slurm's qsub|slurm-wlm-torque|a test machine of your own|command -v qsub
munge|munge|a test machine of your own|PATH=$PATH:/usr/sbin command -v munged
shellcheck|shellcheck|conda install shellcheck|command -v shellcheck
TABLE
}

# For `make test-fresh`.
fresh_needs() { echo "debootstrap|debootstrap|a Debian of your own|PATH=\$PATH:/usr/sbin command -v debootstrap"; }

# For .ci/run, which builds the same sources twice, opens the page of evaluate --report, and checks
# accept.prom.
own_promtool=.deps/promtool
has_promtool() { command -v promtool >/dev/null || test -x "$own_promtool/promtool"; }
ci_needs() {
  cat <<'TABLE'
ccache|ccache|module load ccache|command -v ccache
Chromium|chromium|a browser|command -v chromium
promtool|prometheus (only this file)|a release of Prometheus|has_promtool
TABLE
}

# One file of Debian's package. The package itself would start a server where systemd runs.
install_promtool() (
  tmp=$(mktemp -d /tmp/convoy-deps-XXXXXX) && trap 'rm -rf "$tmp"' EXIT
  echo "fetching promtool into $own_promtool (20 MB)"
  apt-get update -qq
  (cd "$tmp" && apt-get download -qq -o APT::Sandbox::User=root prometheus && dpkg-deb -x prometheus_*.deb x)
  mkdir -p "$own_promtool" && cp "$tmp/x/usr/bin/promtool" "$own_promtool/"
)

# The CPU backend's library, as Intel publishes it for GNU OpenMP (Debian 12 has only 2.6).
install_onednn() (
  tmp=$(mktemp -d /tmp/convoy-deps-XXXXXX) && trap 'rm -rf "$tmp"' EXIT
  echo "fetching oneDNN into $own_onednn"
  "$PYTHON" -m pip download --quiet --no-deps --dest "$tmp" --only-binary=:all: \
    onednn-cpu-gomp==2023.2.0 onednn-devel-cpu-gomp==2023.2.0
  (cd "$tmp" && sha256sum --check --quiet - <<'SUMS'
2f22a54d6a890ed14bfa185d42a4be65d8b5b1df85dc1f0f3a9abe31620416fb  onednn_cpu_gomp-2023.2.0-py2.py3-none-manylinux1_x86_64.whl
9763c69e8c907e119056bd52ad918ca84ac9ba939d130a99dfa95ccca3e5e284  onednn_devel_cpu_gomp-2023.2.0-py2.py3-none-manylinux1_x86_64.whl
SUMS
  )
  for wheel in "$tmp"/*.whl; do "$PYTHON" -m zipfile -e "$wheel" "$tmp/x"; done
  rm -rf "$own_onednn" && mkdir -p "$own_onednn/lib"
  cp -r "$tmp"/x/onednn_devel*/data/include "$own_onednn/include"
  # a wheel cannot hold links: it has this file three times
  cp "$tmp"/x/onednn_cpu*/data/lib/libdnnl.so.3 "$own_onednn/lib/"
  cp "$tmp"/x/onednn_cpu*/data/share/doc/onednn/LICENSE "$own_onednn/"
  ln -s libdnnl.so.3 "$own_onednn/lib/libdnnl.so"
)

# Headers over cuDNN's graph API, needed if there is a CUDA toolkit. The wheel does not depend on
# the Python version.
install_cudnn_frontend() (
  tmp=$(mktemp -d /tmp/convoy-deps-XXXXXX) && trap 'rm -rf "$tmp"' EXIT
  echo "fetching cudnn-frontend into $own_frontend"
  "$PYTHON" -m pip download --quiet --no-deps --dest "$tmp" --only-binary=:all: \
    --python-version 3.11 --implementation cp --platform manylinux_2_28_x86_64 \
    "nvidia-cudnn-frontend==$frontend_version"
  (cd "$tmp" && sha256sum --check --quiet - <<'SUMS'
6ea44a8f2c0cfd20868b239ea13a2e0f32895dab868f6ff2bee01caf3778d273  nvidia_cudnn_frontend-1.17.0-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl
SUMS
  )
  "$PYTHON" -m zipfile -e "$tmp"/*.whl "$tmp/x"
  rm -rf "$own_frontend" && mkdir -p "$own_frontend"
  cp -r "$tmp/x/include" "$own_frontend/include"
  cp "$tmp"/x/nvidia_cudnn_frontend-*.dist-info/licenses/LICENSE.txt "$own_frontend/LICENSE"
  echo "$frontend_version" > "$own_frontend/VERSION"
)

# PyTorch for comparison, in a separate virtual environment. It needs no root.
peers() { # peers TARGET [PACKAGE==VERSION...]: for `make TARGET`, with further packages
  local venv=.deps/peers target=$1 modules
  shift
  local packages=(torch==2.15.0 torchvision==0.29.2 safetensors==0.8.0 h5py==3.16.0 numpy==2.4.6 "$@")
  modules=$(IFS=,; echo "${packages[*]%%==*}")
  if [ -n "${PEER_PYTHON:-}" ]; then # any versions
    "$PEER_PYTHON" -c "import $modules" 2>/dev/null || {
      echo "PEER_PYTHON=$PEER_PYTHON does not have all of ${modules//,/, }:" \
        "install them there, or leave PEER_PYTHON out" >&2
      exit 1
    }
    return 0
  fi
  "$venv/bin/python" -c 'import sys, importlib.metadata as m
sys.exit(any(m.version(p.split("==")[0]).split("+")[0] != p.split("==")[1] for p in sys.argv[1:]))' \
    "${packages[@]}" 2>/dev/null && return 0
  echo "fetching ${packages[*]} into $venv: 5 GB and some minutes (PEER_PYTHON=/path/to/python takes one that is there)"
  "$PYTHON" -m venv --without-pip "$venv" &&
    "$PYTHON" -m pip --python "$venv/bin/python" install --quiet --only-binary=:all: "${packages[@]}" ||
    {
      echo "PyTorch could not be installed into $venv, which needs Python 3.11 or newer and PyPI;" \
        "give a Python that has ${modules//,/, }: make $target PEER_PYTHON=/path/to/python" >&2
      exit 1
    }
}

# A program for some tests, in a virtual environment. Without it those tests are skipped.
for_tests() { # for_tests NAME SIZE MODULES PACKAGE...
  local venv=.deps/$1
  "$venv/bin/python" -c "import $3" 2>/dev/null && return 0
  echo "fetching $1 into $venv ($2)"
  "$PYTHON" -m venv --without-pip "$venv" &&
    "$PYTHON" -m pip --python "$venv/bin/python" install --quiet --only-binary=:all: "${@:4}" ||
    echo "$1 could not be installed: its tests are skipped" >&2
}

missing() { # prints "name|package|module" of the rows whose test fails; the test is everything after the third bar
  local name package module present
  while IFS='|' read -r name package module present; do
    (eval "$present") >/dev/null 2>&1 || echo "$name|$package|$module"
  done < <(needs; [ -z "${scope:-}" ] || "${scope}_needs")
}

# A user's own folder is not filled: it must have what is looked for.
check_own_folder() { # VARIABLE FOLDER HEADER
  [ "${!1}" = "$2" ] || [ -e "${!1}/include/$3" ] ||
    {
      echo "$1=${!1}: there is no ${!1}/include/$3;" \
        "name another folder, or leave $1 out to have it fetched into $2" >&2
      exit 1
    }
}

install() {
  local rows packages=() name package module
  check_own_folder ONEDNN "$own_onednn" oneapi/dnnl/dnnl.hpp
  ! has_cuda || check_own_folder CUDNN_FRONTEND "$own_frontend" cudnn_frontend.h
  rows=$(missing)
  [ -n "$rows" ] || return 0
  if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "Missing, and not installed because this is not root on Debian or Ubuntu:" >&2
    while IFS='|' read -r name package module; do
      echo "  $name: Debian package $package; on a cluster: $module" >&2
    done <<<"$rows"
    # These need no root, because they go into the checkout.
    if grep -q '^oneDNN' <<<"$rows" && python_has pip; then
      install_onednn && rows=$(grep -v '^oneDNN' <<<"$rows" || true)
    fi
    if grep -q '^cudnn-frontend' <<<"$rows" && python_has pip; then
      install_cudnn_frontend && rows=$(grep -v '^cudnn-frontend' <<<"$rows" || true)
    fi
    [ -z "$rows" ] || exit 1
    return 0
  fi
  while IFS='|' read -r name package module; do
    [[ $package == *' ('* ]] || packages+=("$package")
  done <<<"$rows"
  if [ ${#packages[@]} -gt 0 ]; then
    echo "installing ${packages[*]} (about a minute)"
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
  fi
  test -e "$ONEDNN/include/oneapi/dnnl/dnnl.hpp" || install_onednn
  ! has_cuda || has_frontend || install_cudnn_frontend
  [ "${scope:-}" != ci ] || has_promtool || install_promtool
  rows=$(missing)
  [ -z "$rows" ] || {
    echo "still missing after the installation: $(cut -d'|' -f1 <<<"$rows" | paste -sd, -)" >&2
    exit 1
  }
}

macro() { # macro HEADER NAME FLAGS: the value of a macro
  printf '#include <%s>\n%s\n' "$1" "$2" | g++ -std=c++20 -E -P -x c++ ${3:-} - 2>/dev/null | tail -n1 | tr -d '" '
}

numbers() { # numbers HEADER FLAGS NAME...: the values of macros, with dots between them
  local part
  for part in "${@:3}"; do macro "$1" "$part" "$2"; done | paste -sd. -
}

cuda_info() { # describes the CUDA backend in one line
  local lacks=() file
  [ -n "$CUDA" ] || { echo "turned off (CUDA=): only the CPU backend"; return; }
  has_cuda || { echo "no toolkit in $CUDA: only the CPU backend"; return; }
  for file in "$CUDA/include/cudnn.h" "$CUDA/include/nccl.h" "$CUDNN_FRONTEND/include/cudnn_frontend.h"; do
    [ -e "$file" ] || lacks+=("$file")
  done
  [ ${#lacks[@]} -eq 0 ] || { echo "toolkit in $CUDA, but not ${lacks[*]}: only the CPU backend"; return; }
  local includes="-I$CUDA/include -I$CUDNN_FRONTEND/include" toolkit parts=()
  toolkit=$("$CUDA/bin/nvcc" --version | sed -n 's/.*release \([^,]*\).*/\1/p')
  parts+=("$(numbers cudnn_version.h "$includes" CUDNN_{MAJOR,MINOR,PATCHLEVEL})")
  parts+=("$(numbers nccl.h "$includes" NCCL_{MAJOR,MINOR,PATCH})")
  parts+=("$(numbers cudnn_frontend_version.h "$includes" CUDNN_FRONTEND_{MAJOR,MINOR,PATCH}_VERSION)")
  echo "$toolkit in $CUDA for architectures $CUDA_ARCHS; cuDNN ${parts[0]}, NCCL ${parts[1]}," \
    "cudnn-frontend ${parts[2]} in $CUDNN_FRONTEND"
}

info() {
  local name package module own_python
  own_python='import sys, h5py, matplotlib
print(sys.version.split()[0], "h5py", h5py.__version__, "matplotlib", matplotlib.__version__)'
  version() { pkg-config --modversion "$1" 2>/dev/null || echo missing; }
  printf '%-24s %s\n' "compiler" "$(g++ --version 2>/dev/null | head -n1)" \
    "OpenMPI" "$(mpirun --version 2>/dev/null | head -n1), $(command -v mpirun || echo missing)" \
    "HDF5" "$(version hdf5), $(pkg-config --libs-only-L hdf5 2>/dev/null | sed 's/^-L//')" \
    "Boost" "$(macro boost/version.hpp BOOST_LIB_VERSION | tr _ .)" \
    "oneDNN" "$(numbers oneapi/dnnl/dnnl_version.h "-I$ONEDNN/include" DNNL_VERSION_{MAJOR,MINOR,PATCH}), $ONEDNN" \
    "libarchive" "$(macro archive.h ARCHIVE_VERSION_ONLY_STRING)" \
    "libjpeg-turbo" "$(macro jconfig.h LIBJPEG_TURBO_VERSION)" \
    "libpng" "$(macro png.h PNG_LIBPNG_VER_STRING)" "libtiff" "$(version libtiff-4)" "libwebp" "$(version libwebp)" \
    "giflib" "$(numbers gif_lib.h "" GIFLIB_{MAJOR,MINOR,RELEASE})" "OpenSSL" "$(openssl version 2>/dev/null)" \
    "GoogleTest" "$(version gtest)" \
    "python" "$("$PYTHON" -c "$own_python" 2>&1 | tail -n1), $PYTHON"
  printf '%-24s %s\n' "CUDA" "$(cuda_info)"
  while IFS='|' read -r name package module; do
    printf '%-24s missing: Debian package %s; on a cluster: %s\n' "$name" "$package" "$module"
  done < <(missing)
}

case ${1:-} in
  install) scope=${2:-} && install ;;
  peers) peers "${@:2}" ;;
  tensorboard) for_tests tensorboard '150 MB' tensorboard,h5py tensorboard==2.21.0 h5py==3.16.0 ;;
  reframe) for_tests reframe '60 MB' reframe reframe-hpc==4.10.4 ;;
  info) info ;;
  *)
    echo "usage: deps.sh install [jobs|fuzz|fresh|ci] | peers TARGET [PACKAGE==VERSION...] |" \
      "tensorboard | reframe | info" >&2
    exit 2
    ;;
esac
