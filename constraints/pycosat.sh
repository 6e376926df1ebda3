#!/bin/sh
# Installs pycosat, which reasoning-gym needs. It has no wheel, so a C compiler builds it.
# Usage: pycosat.sh PYTHON PIP...    PIP: the command that installs
python=$1
shift
log=$(env "$@" pycosat 2>&1) && exit
include=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
if why=$(echo '#include <Python.h>' | cc -I"$include" -fsyntax-only -x c - 2>&1); then
  printf '%s\n' "$log" >&2
else
  version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  line=$(printf '%s\n' "$why" | grep -m 1 -E 'error|not found')
  printf 'error: %s\n  = because: %s\n  = fix: %s\n' \
    "pycosat, which the tests need, cannot be built" "${line#"$0: "*: }" \
    "apt-get install gcc libc6-dev python$version-dev" >&2
fi
exit 2
