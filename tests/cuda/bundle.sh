#!/usr/bin/env bash
# Packs Convoy and its tests for a machine that has nothing but glibc 2.36 or newer, a CUDA driver
# and CUDA's libraries: BUILD/convoy-bundle.tar.xz, which unpacks to convoy-bundle/. There: `./run
# info`, `./run mpirun -np 2 ./run train …`, `./run test-gpu`. FOLDER_ONLY=yes leaves it unpacked.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=${BUILD:-build} out=${BUILD:-build}/convoy-bundle
rm -rf "$out" && mkdir -p "$out/build" "$out/lib" "$out/openmpi" "$out/tests/cuda" "$out/input" "$out/src/plot"

for program in convoy convoy_tests; do cp "$build/$program" "$out/build/" && strip "$out/build/$program"; done
backend=$build/libconvoy_cuda.so
[ ! -e "$backend" ] || { cp "$backend" "$out/build/" && strip --strip-unneeded "$out/build/libconvoy_cuda.so"; }
cp -r tests/golden tests/peers "$out/tests/"
cp tests/cuda/gpu.sh tests/cuda/graphs.txt "$out/tests/cuda/"
cp tests/gpu_slot.sh "$out/tests/"
cp -r input/recipes input/cifar10-sample input/mnist-sample "$out/input/" 2>/dev/null || true
cp src/plot/*.py src/plot/requirements.txt "$out/src/plot/"
mkdir -p "$out/output/published"
cp output/published/*.csv "$out/output/published/"
cp LICENSE README.md "$out/"

# mpirun and its daemon, with the plugins that one node needs.
cp "$(readlink -f "$(command -v mpirun)")" "$out/openmpi/mpirun"
command -v orted >/dev/null || { echo "make bundle: needs OpenMPI 4: there is no orted; use one of version 4.1" >&2; exit 1; }
cp "$(readlink -f "$(command -v orted)")" "$out/openmpi/orted"
component_dir() { ompi_info --path "$1" --parsable 2>/dev/null | sed -n "s/^path:$1://p"; }
plugins=$(component_dir pkglibdir) help=$(component_dir pkgdatadir)
mkdir -p "$out/openmpi/plugins" "$out/openmpi/help" "$out/openmpi/pmix"
cp "$plugins"/mca_*.so "$out/openmpi/plugins/"
# Leave out plugins that need libraries of a fabric, a scheduler or a GPU.
rm -f "$out"/openmpi/plugins/mca_{btl_usnic,btl_openib,btl_uct,mtl_ofi,mtl_psm,mtl_psm2,pml_ucx,osc_ucx,spml_ucx,fs_lustre,common_ofi,btl_ofi,ras_slurm,plm_slurm,plm_tm,ras_tm}.so
cp "$help"/help-*.txt "$help"/*.txt "$out/openmpi/help/" 2>/dev/null || true
# Debian's PMIx has its plugins built in; others keep them in a folder.
pmix=$(find "$(dirname "$(ldconfig -p | awk '/libpmix.so.2 /{print $NF; exit}')")" -maxdepth 4 -name 'mca_gds_hash.so' -printf '%h\n' 2>/dev/null | head -n1)
[ -z "$pmix" ] || cp "$pmix"/*.so "$out/openmpi/pmix/"

# Copy every shared library except glibc's and CUDA's, which belong to the machine.
theirs='^(linux-vdso|ld-linux|libc\.so|libm\.so|libdl\.so|librt\.so|libpthread\.so|libresolv\.so|libutil\.so|libcuda|libcudnn|libnccl|libnvrtc|libcublas|libnvidia)'
libraries() { ldd "$@" 2>/dev/null | awk '/=> \//{print $3}' | sort -u; }
copy_libraries() {
  local file name
  for file in $(libraries "$@"); do
    name=$(basename "$file")
    [[ $name =~ $theirs ]] || [ -e "$out/lib/$name" ] || cp -L "$file" "$out/lib/$name"
  done
}
copy_libraries "$build/convoy" "$build/convoy_tests" $([ ! -e "$backend" ] || echo "$backend") "$out"/openmpi/mpirun "$out"/openmpi/orted $(find "$out/openmpi" -name "*.so")
strip --strip-unneeded "$out"/lib/* "$out"/openmpi/plugins/*.so 2>/dev/null || true

cp tests/cuda/bundle_run.sh "$out/run" && chmod +x "$out/run"
{ echo "commit $(git describe --always --dirty --abbrev=12 --exclude='*' 2>/dev/null || echo unknown)"; grep -m1 PRETTY_NAME /etc/os-release; } > "$out/BUILT"
[ -z "${FOLDER_ONLY:-}" ] || exit 0
tar -C "$build" -c convoy-bundle | xz -T0 -9e > "$build/convoy-bundle.tar.xz"
size=$(stat -c %s "$build/convoy-bundle.tar.xz")
echo "$build/convoy-bundle.tar.xz: $((size >> 20)) MiB, unpacked $(du -sm "$out" | cut -f1) MiB"
[ "$size" -lt $((40 << 20)) ] || { echo "larger than 40 MiB" >&2; exit 1; }
