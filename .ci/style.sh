#!/usr/bin/env bash
# Formatting of the sources. `format` fixes it, `check` prints errors (clang-format, columns of
# comments and prose), `tidy FILE...` runs clang-tidy with TIDY_FLAGS. The tools come from PyPI into
# .deps/style in fixed versions, because others format differently.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-/usr/bin/python3} BUILD=${BUILD:-build}
bin=.deps/style
export PYTHONSAFEPATH=1 # otherwise -m imports from the current folder first

fetch() { # fetch NAME VERSION SHA256
  [ "$(cat "$bin/$1.version" 2>/dev/null)" = "$2" ] && return
  local tmp
  tmp=$(mktemp -d /tmp/convoy-deps-XXXXXX) # not in TMPDIR, where others may rename it
  "$PYTHON" -m pip download --quiet --no-deps --dest "$tmp" --only-binary=:all: "$1==$2"
  echo "$3  $(ls "$tmp"/*.whl)" | sha256sum --check --quiet -
  "$PYTHON" -m zipfile -e "$tmp"/*.whl "$tmp/x"
  mkdir -p "$bin" && rm -rf "${bin:?}/$1"
  mv "$tmp/x/${1//-/_}/data" "$bin/$1" && chmod +x "$bin/$1/bin/$1"
  echo "$2" >"$bin/$1.version"
  rm -rf "$tmp"
}

sources() { git ls-files -z --cached --others --exclude-standard '*.cpp' '*.h' '*.cu' '*.cuh'; }
others() {
  git ls-files -z --cached --others --exclude-standard '*.md' '*.py' '*.sh' '*.mk' '*.pbs' '*.sbatch' '*.cfg' '*.example' Makefile
}
clang_format() {
  fetch clang-format 19.1.7 f4906fb463dd2033032978f56962caab268c9428a384126b9400543eb667f11c
  sources | xargs -0 "$bin/clang-format/bin/clang-format" "$@"
}

# Counts each word in all sources and prose.
words() { { sources; others; } | xargs -0 cat | grep -oE '[[:alnum:]_]+' | sort | uniq -c; }

case ${1:-} in
  format)
    before=$(words)
    { sources; others; } | xargs -0 "$PYTHON" .ci/columns.py --fill
    clang_format -i
    diff <(echo "$before") <(words) || { echo "make format has changed these words; git diff shows where" >&2; exit 1; }
    ;;
  check)
    code=0
    clang_format --dry-run -Werror || code=1
    { sources; others; } | xargs -0 "$PYTHON" .ci/columns.py || code=1
    [ $code = 0 ] || { echo "make format puts it right" >&2; exit 1; }
    ;;
  tidy)
    fetch clang-tidy 22.1.8 1a3de07ba82d4403d8b692ae63a5520d4db5c606014c92c24bbcef9259057bf1
    shift
    # OpenMP's header is GCC's, because the wheel has none. winograd.cpp needs GCC.
    gcc=$(dirname "$(g++ -print-file-name=include/omp.h)")
    export gcc
    printf '%s\n' "$@" | grep -v cpu/winograd.cpp | xargs -P "$(nproc)" -n 1 bash -c \
      'said=$("$0" --quiet "$1" -- $TIDY_FLAGS -idirafter "$gcc" "-D__malloc__(...)=__malloc__" 2>/dev/null) || { echo "$said"; exit 1; }' \
      "$bin/clang-tidy/bin/clang-tidy"
    ;;
  *) echo "usage: style.sh format | check | tidy FILE..." >&2; exit 2 ;;
esac
