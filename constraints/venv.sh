#!/bin/sh
# Makes an environment with pip, or completes one that an interrupted `make` left. Never removes or replaces one.
# Usage: venv.sh FOLDER PYTHON [ASKED]    ASKED: not empty if the user named PYTHON
venv=$1 python=$2 asked=$3
needs="grpo-run needs Python 3.11 or newer"

version() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2> /dev/null; }
is_old() { case $1 in [12].* | 3.[0-9] | 3.10) ;; *) false ;; esac; }
refuse() { printf 'error: %s\n  = because: %s\n  = fix: %s\n' "$@" >&2 && exit 2; }

if [ -e "$venv/bin/python" ] || [ -L "$venv/bin/python" ]; then
  own=$(version "$venv/bin/python") ||
    refuse "the Python of $venv does not start" "it is $(readlink -m "$venv/bin/python")" "rm -rf $venv"
  ! is_old "$own" || refuse "$venv has Python $own" "$needs" "rm -rf $venv; make PYTHON=python3.12 ..."
  if [ -n "$asked" ] && [ "$(version "$python")" != "$own" ]; then
    refuse "$venv has Python $own, which is not that of PYTHON=$python" "make never replaces an environment" \
      "rm -rf $venv, or leave out PYTHON"
  fi
  [ ! -e "$venv/train.stamp" ] || exit 0
  # The scripts for activation are written last.
  [ -e "$venv/bin/activate" ] && "$venv/bin/python" -m pip --version > /dev/null 2>&1 && exit
  echo "completing $venv, which has no pip"
  python=$("$venv/bin/python" -c 'import sys; print(sys._base_executable)')
fi
own=$(version "$python") || refuse "$python does not start" "$needs" "install it, or name it: make PYTHON=/path/to/it ..."
! is_old "$own" || refuse "$python is Python $own" "$needs" "name a newer one: make PYTHON=python3.12 ..."
"$python" -c 'import ensurepip' 2> /dev/null ||
  refuse "$python cannot make $venv" "it has no ensurepip, which Debian and Ubuntu package separately" \
    "apt-get install python$own-venv"
"$python" -m venv "$venv" || exit
"$venv/bin/python" -m pip --version > /dev/null || refuse "the pip of $venv does not start" "see above" "rm -rf $venv"
