#!/usr/bin/env bash
# Runs a newcomer's commands in a bare Debian of each release in RELEASES: `make run`, then `make
# test`. In the first one it also runs as an ordinary user, with libraries in separate prefixes, as
# modules have them (USER_TOO= leaves that out). T=bare leaves out tests that compute alike here.
# Tests the commit. Needs root and debootstrap; tests/bare.sh says which files stay. If CCACHE_DIR
# is set, objects from earlier runs of the same compiler come from that cache.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
RELEASES=${RELEASES:-bookworm trixie} USER_TOO=${USER_TOO-yes} logs=${BUILD:-build}/fresh
[[ ${T:-bare} = bare ]] || { echo "test-fresh: T=$T: only T=bare, or none" >&2; exit 2; }
make_test="make test${T:+ T=bare}"
source .ci/sum.sh
source tests/bare.sh
start_bare test-fresh

# ---- steps ---------------------------------------------------------------------------------------
# Runs one command in the clone of USER. Adds its own count of tests, or 1 if it has none.
try() { # RELEASE USER COMMAND [SETTINGS]
  local log=$logs/$1-$2-${3// /-}.log start=$SECONDS code=0
  inside "$2" "${4:-true} && cd ~/convoy && $3" >"$log" 2>&1 || code=$?
  add_up "$log" "$code"
  echo "test-fresh: $1: $2: $3: $counted, $((SECONDS - start)) s ($log)"
  [[ $code -eq 0 ]] || { grep -a '^FAILED' "$log" || tail -n 15 "$log"; }
  return "$code"
}

# Moves the files of Debian packages from /usr into a prefix, where `module load` would put them.
into_prefix() { # NAME PATTERN-OF-PACKAGES...
  local name=$1
  shift
  inside root "set -e; cd /usr
    dpkg -L \$(dpkg-query --show --showformat='\${binary:Package} ' $*) 2>/dev/null | sed -n 's|^/usr/||p' | sort -u |
      while read -r f; do [ -d \"\$f\" ] && [ ! -L \"\$f\" ] || [ ! -e \"\$f\" ] || echo \"\$f\"; done >/tmp/files
    mkdir -p /opt/$name && tar -cT /tmp/files | tar -C /opt/$name -x && xargs rm -f </tmp/files"
}

as_user_with_modules() { # RELEASE
  local lib=lib/x86_64-linux-gnu
  inside root 'useradd -m newcomer && cd /home/newcomer && git clone -q /root/convoy && chown -R newcomer: convoy &&
    mv /root/convoy/.deps/onednn /opt/onednn'
  into_prefix hdf5 "'libhdf5*'" "'hdf5-*'"
  into_prefix boost "'libboost*'"
  inside root "cd /opt/hdf5/$lib/pkgconfig && sed -i 's|/usr|/opt/hdf5|' *.pc && ln -sf hdf5-serial.pc hdf5.pc && ldconfig"
  local modules="export PATH=/opt/hdf5/bin:\$PATH PKG_CONFIG_PATH=/opt/hdf5/$lib/pkgconfig ONEDNN=/opt/onednn \
    LD_LIBRARY_PATH=/opt/hdf5/$lib:/opt/boost/$lib CPATH=/opt/boost/include LIBRARY_PATH=/opt/boost/$lib:/opt/hdf5/$lib"
  try "$1" newcomer "make run" "$modules" || return 0
  try "$1" newcomer "$make_test" "$modules" || true
}

for release in $RELEASES; do
  if ! bootstrap "$release"; then
    failed=$((failed + 1))
    continue
  fi
  unpack "$release"
  share_compilations
  git clone --quiet "file://$PWD" "$tree/root/convoy"
  chmod 755 "$tree/root" # the ordinary user clones it
  if try "$release" root "make run" && try "$release" root "$make_test" && [[ -n $USER_TOO ]]; then
    as_user_with_modules "$release"
  fi
  USER_TOO='' # once
  drop_tree
done
closing_line
((failed == 0))
