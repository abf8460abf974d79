#!/usr/bin/env bash
# What a newcomer does, in a bare Debian of each release in RELEASES: `make run`, then `make test`.
# In the first one also as an ordinary user, with libraries in prefixes of their own, as modules
# have them (USER_TOO= leaves that out). Tests what is committed. Needs root and debootstrap. The
# bare systems are kept as archives in FRESH_CACHE; nothing else stays.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
RELEASES=${RELEASES:-bookworm trixie} USER_TOO=${USER_TOO-yes} MIRROR=${MIRROR:-http://deb.debian.org/debian}
cache=${FRESH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/convoy}
logs=${BUILD:-build}/fresh
tree='' bare='' child=''
source .ci/sum.sh

skip() {
  echo "test-fresh: skipped: $1"
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
}
[[ $(id -u) -eq 0 ]] || skip "needs root"
command -v debootstrap >/dev/null || skip "needs debootstrap (Debian package debootstrap)"
unshare --mount --pid --fork true 2>/dev/null || skip "needs the right to mount"
clean_up() {
  [[ -z $child ]] || { kill -KILL "$child" && wait "$child"; } 2>/dev/null || true
  [[ -z $tree$bare ]] || rm -rf --one-file-system "${tree:-$bare}"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# ---- a bare system -----------------------------------------------------------------------------
bootstrap() { # RELEASE
  [[ ! -e $cache/$1.tar.gz ]] || return 0
  echo "test-fresh: $1: a bare system, for $cache"
  mkdir -p "$cache"
  bare=$(mktemp -d "$cache/bare-XXXXXX")
  debootstrap --variant=minbase --include=git,make,ca-certificates "$1" "$bare" "$MIRROR" >"$logs/$1-bootstrap.log" 2>&1 ||
    { tail -n 5 "$logs/$1-bootstrap.log"; return 1; }
  rm -rf "$bare"/var/cache/apt/archives/*.deb
  tar -C "$bare" --one-file-system -czf "$bare.tar.gz" .
  mv "$bare.tar.gz" "$cache/$1.tar.gz"
  rm -rf --one-file-system "$bare"
  bare=''
}

unpack() { # RELEASE: sets `tree`, a system that reaches the network as this one does
  tree=$(mktemp -d "$cache/$1-XXXXXX")
  tar -C "$tree" -xzf "$cache/$1.tar.gz"
  chmod 755 "$tree" # mktemp's is closed to all but root
  cp -L /etc/resolv.conf /etc/hosts "$tree/etc/"
  cp -L /etc/ssl/certs/ca-certificates.crt "$tree/etc/ssl/certs/"
  [[ ! -e /etc/pip.conf ]] || cp -L /etc/pip.conf "$tree/etc/"
  apt-config dump 2>/dev/null | grep -iE '^Acquire::([a-z]+::proxy|check-|retries)' >"$tree/etc/apt/apt.conf.d/99here" || true
  echo 'Acquire::Retries "3";' >>"$tree/etc/apt/apt.conf.d/99here"
  git clone --quiet "file://$PWD" "$tree/root/convoy"
  chmod 755 "$tree/root" # the ordinary user clones it
}

# Runs a line of shell in `tree` as USER, in mount and process namespaces of its own: with its first
# process all others and all mounts are gone. In the background, so that a signal ends it at once.
inside() { # USER LINE
  local settings=(LANG=C.UTF-8 TERM=dumb) name
  for name in $(compgen -e | grep -iE '^((https?|no)_proxy|PIP_(CERT|INDEX_URL|PROXY)|SSL_CERT_(FILE|DIR)|CURL_CA_BUNDLE)$'); do
    settings+=("$name=${!name}")
  done
  # shellcheck disable=SC2016
  unshare --mount --pid --fork --kill-child bash -c '
    tree=$1 user=$2 line=$3
    shift 3
    mount -t proc proc "$tree/proc"
    mount -t sysfs sys "$tree/sys"
    mount --rbind /dev "$tree/dev"
    mount -t tmpfs -o mode=1777 shm "$tree/dev/shm"
    # Process numbers start anew with each namespace, and mpirun names its folder there by its own.
    rm -rf "$tree"/tmp/*
    home=$(chroot "$tree" getent passwd "$user" | cut -d: -f6)
    exec chroot "$tree" setpriv --reuid "$user" --regid "$user" --init-groups \
      env -i HOME="$home" USER="$user" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@" bash -c "$line"
  ' inside "$tree" "$1" "$2" "${settings[@]}" </dev/null &
  child=$!
  local code=0
  wait "$child" || code=$?
  child=''
  return "$code"
}

# ---- what is tried ------------------------------------------------------------------------------
# One command in the clone of USER; its own count of tests is added, or 1 if it has none.
try() { # RELEASE USER COMMAND [SETTINGS]
  local log=$logs/$1-$2-${3// /-}.log start=$SECONDS code=0
  inside "$2" "${4:-true} && cd ~/convoy && $3" >"$log" 2>&1 || code=$?
  add_up "$log" "$code"
  echo "test-fresh: $1: $2: $3: $counted, $((SECONDS - start)) s ($log)"
  [[ $code -eq 0 ]] || { grep -a '^FAILED' "$log" || tail -n 15 "$log"; }
  return "$code"
}

# Moves the files of Debian packages from /usr into a prefix, as `module load` would find them
# there.
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
  try "$1" newcomer "make test" "$modules" || true
}

mkdir -p "$logs"
for release in $RELEASES; do
  if ! bootstrap "$release"; then
    failed=$((failed + 1))
    continue
  fi
  unpack "$release"
  if try "$release" root "make run" && try "$release" root "make test" && [[ -n $USER_TOO ]]; then
    as_user_with_modules "$release"
  fi
  USER_TOO='' # once
  rm -rf --one-file-system "$tree"
  tree=''
done
closing_line
((failed == 0))
