#!/usr/bin/env bash
# Fetches CIFAR-10 (170 MB), checks it, and converts it to input/cifar10. Can be interrupted and
# started again: it resumes. Nothing is converted unless size and MD5 are those published; a wrong
# file is kept aside as *.bad.
#
# For mirrors and tests: CIFAR10_URL, CIFAR10_MD5, CIFAR10_BYTES, CIFAR10_DIR (default input),
# CONVOY (default build/convoy).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

url=${CIFAR10_URL:-https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz}
md5=${CIFAR10_MD5:-c32a1d4ab5d03f1284b67883e8d87530}
bytes=${CIFAR10_BYTES:-170052171}
folder=${CIFAR10_DIR:-input}
convoy=${CONVOY:-${BUILD:-build}/convoy}
name=cifar-10-binary.tar.gz
archive=$folder/download/$name # for messages: files are used by their names in the current folder

die() { echo "fetch: $1" >&2; exit "$2"; }
size_of() { if [[ -e $1 ]]; then stat -c %s "$1"; else echo 0; fi; }

download() {
  local code=0 show=(--silent)
  if [[ -t 2 ]]; then show=(--progress-bar); fi
  echo "fetch: $url ($bytes bytes, $(size_of "$name.part") here already)"
  curl "${show[@]}" --fail --location --connect-timeout 20 --speed-limit 1000 --speed-time 60 \
    --continue-at - --output "$name.part" "$url" || code=$?
  if [[ $code == 33 ]]; then  # the server cannot resume
    rm -f "$name.part"
    code=0
    curl "${show[@]}" --fail --location --connect-timeout 20 --speed-limit 1000 --speed-time 60 --output "$name.part" "$url" || code=$?
  fi
  case $code in
    0) ;;
    6 | 7 | 35) die "cannot reach ${url%"${url##*/}"} (no network?); put the archive at $archive by other means, or train on input/cifar10-sample" 5 ;;
    18 | 28 | 56) die "the connection broke after $(size_of "$name.part") of $bytes bytes; run this again to resume from there" 5 ;;
    22) die "$url: the server refuses it (moved?); put the archive at $archive by other means" 5 ;;
    23) die "$archive.part: cannot be written; is the disk full?" 5 ;;
    *) die "$url: curl failed with code $code; run this again, or put the archive at $archive by other means" 5 ;;
  esac
}

check() {  # FILE
  local sum
  if [[ $(size_of "$1") == "$bytes" ]]; then
    sum=$(md5sum <"$1")
    if [[ ${sum%% *} == "$md5" ]]; then return 0; fi
  fi
  mv -fT "$1" "$name.bad"
  die "$archive: size or MD5 is not the published one; kept as $archive.bad, run this again to fetch anew" 3
}

if [[ -e $folder/cifar10/manifest.json ]]; then
  printf "fetch: %s is there already; check it with: %q verify %q\n" "$folder/cifar10" "$convoy" "$folder/cifar10"
  exit 0
fi
command -v curl >/dev/null || [[ -e $archive ]] || die "curl is missing; install it, or put the archive at $archive by other means" 2
[[ -x $convoy ]] || die "$convoy is missing; run make first" 2
convoy=$(realpath -- "$convoy") to=$(realpath -m -- "$folder")/cifar10
# Others may not choose what is written there: a link in it could lead to any file. Nor may they
# exchange the folder after this check, so it becomes the current folder first.
mkdir -p "$folder" && { [[ -e $folder/download ]] || mkdir -m 700 "$folder/download"; }
foreign="$folder/download is a link or belongs to another user; set CIFAR10_DIR to a folder of yours"
[[ ! -L $folder/download ]] || die "$foreign" 2
CDPATH='' cd -- "$folder/download"
[[ -O . ]] || die "$foreign" 2
[[ $(stat -c %A .) == d????-??-? ]] || die "others may write in $folder/download: chmod go-w it, if its files are yours" 2
for file in "$name" "$name.part" "$name.bad"; do
  [[ ! -L $file ]] || die "$folder/download/$file is a link; remove it" 2
done
if [[ ! -e $name ]]; then
  if (($(size_of "$name.part") > bytes)); then rm -f "$name.part"; fi
  if (($(size_of "$name.part") < bytes)); then download; fi
  check "$name.part"
  mv -T "$name.part" "$name"
fi
check "$name"
"$convoy" convert cifar10 --from "$name" --to "$to"
