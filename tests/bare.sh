# shellcheck shell=bash
# Sourced: bare Debians, made by debootstrap from MIRROR, to run commands in. They are kept as
# archives in FRESH_CACHE; nothing else stays. `logs` is a folder for the commands' output.
MIRROR=${MIRROR:-http://deb.debian.org/debian}
cache=${FRESH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/convoy}
test='' tree='' bare='' child=''

skip() {
  echo "$test: skipped: $1"
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
}
clean_up() {
  [[ -z $child ]] || { kill -KILL "$child" && wait "$child"; } 2>/dev/null || true
  [[ -z $tree$bare ]] || rm -rf --one-file-system "${tree:-$bare}" "${tree:-$bare}.tar.gz"
}
# Skips the script's test and exits if it cannot run.
start_bare() { # NAME-OF-TEST
  test=$1
  [[ $(id -u) -eq 0 ]] || skip "needs root"
  command -v debootstrap >/dev/null || skip "needs debootstrap (Debian package debootstrap)"
  unshare --mount --pid --fork true 2>/dev/null || skip "needs the right to mount"
  trap clean_up EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  mkdir -p "${logs:?}"
}

keep() { # SYSTEM NAME: an archive that `unpack NAME` takes
  tar -C "$1" --one-file-system -I 'gzip -3' -cf "$1.tar.gz" .
  mv "$1.tar.gz" "$cache/$2.tar.gz"
}

bootstrap() { # RELEASE
  [[ ! -e $cache/$1.tar.gz ]] || return 0
  echo "$test: $1: a bare system, for $cache"
  mkdir -p "$cache"
  bare=$(mktemp -d "$cache/bare-XXXXXX")
  debootstrap --force-check-gpg --variant=minbase --include=git,make,ca-certificates "$1" "$bare" "$MIRROR" >"$logs/$1-bootstrap.log" 2>&1 ||
    { tail -n 5 "$logs/$1-bootstrap.log"; return 1; }
  rm -rf "$bare"/var/cache/apt/archives/*.deb
  keep "$bare" "$1"
  rm -rf --one-file-system "$bare"
  bare=''
}

unpack() { # RELEASE: sets `tree`, a system that reaches the network as this one does
  tree=$(mktemp -d "$cache/$1-XXXXXX")
  tar -C "$tree" -xzf "$cache/$1.tar.gz"
  chmod 755 "$tree" # mktemp's folder is closed to all users but root
  cp -L /etc/resolv.conf /etc/hosts "$tree/etc/"
  cp -L /etc/ssl/certs/ca-certificates.crt "$tree/etc/ssl/certs/"
  [[ ! -e /etc/pip.conf ]] || cp -L /etc/pip.conf "$tree/etc/"
  apt-config dump 2>/dev/null | grep -iE '^Acquire::([a-z]+::proxy|check-|retries)' >"$tree/etc/apt/apt.conf.d/99here" || true
  echo 'Acquire::Retries "3";' >>"$tree/etc/apt/apt.conf.d/99here"
}

# Installs ccache in `tree`, with the cache of this system in /ccache. Does nothing without
# CCACHE_DIR.
share_compilations() {
  [[ -n ${CCACHE_DIR:-} ]] || return 0
  mkdir -p "$CCACHE_DIR" "$tree/ccache"
  inside root 'apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends ccache' \
    >"$logs/ccache.log" 2>&1 || tail -n 3 "$logs/ccache.log"
}

drop_tree() {
  rm -rf --one-file-system "$tree"
  tree=''
}

# Runs a line of shell in `tree` as USER, in separate mount and process namespaces: all processes
# and mounts end with the first process. It runs in the background, so that a signal ends it at
# once.
inside() { # USER LINE
  local settings=(LANG=C.UTF-8 TERM=dumb) name
  for name in $(compgen -e | grep -iE '^((https?|no)_proxy|PIP_(CERT|INDEX_URL|PROXY)|SSL_CERT_(FILE|DIR)|CURL_CA_BUNDLE)$'); do
    settings+=("$name=${!name}")
  done
  local path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
  if [[ -d $tree/ccache && $1 = root ]]; then # the cache belongs to root
    path=/usr/lib/ccache:$path
    for name in $(compgen -e | grep '^CCACHE_'); do settings+=("$name=${!name}"); done
    settings+=(CCACHE_DIR=/ccache)
  fi
  settings+=(PATH="$path")
  # shellcheck disable=SC2016
  unshare --mount --pid --fork --kill-child bash -c '
    tree=$1 user=$2 line=$3
    shift 3
    mount -t proc proc "$tree/proc"
    mount -t sysfs sys "$tree/sys"
    mount --rbind /dev "$tree/dev"
    mount -t tmpfs -o mode=1777 shm "$tree/dev/shm"
    [ ! -d "$tree/ccache" ] || mount --bind "$CCACHE_DIR" "$tree/ccache"
    # Process numbers start again in each namespace, and mpirun names its folder by its number.
    rm -rf "$tree"/tmp/*
    home=$(chroot "$tree" getent passwd "$user" | cut -d: -f6)
    exec chroot "$tree" setpriv --reuid "$user" --regid "$user" --init-groups \
      env -i HOME="$home" USER="$user" "$@" bash -c "$line"
  ' inside "$tree" "$1" "$2" "${settings[@]}" </dev/null &
  child=$!
  local code=0
  wait "$child" || code=$?
  child=''
  return "$code"
}
