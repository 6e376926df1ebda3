#!/bin/sh
# Installs packages with pip: prints a line for each download, and all that pip printed if it fails. Tries a second
# time, because a download can break off.
# Usage: install.sh PIP...    PIP: the command that installs, without --quiet
once() {
  { env "$@" 2>&1; echo "ended with $?"; } | {
    printed=
    while IFS= read -r line; do
      case $line in
        "ended with 0") exit ;;
        "ended with "*) printf '%s' "$printed" >&2; exit 1 ;;
        *.metadata*) ;;
        *" Downloading "* | *" Using cached "*) echo "${line#"${line%%[! ]*}"}" ;;
        "Installing collected packages: "*) echo "installing them" ;;
      esac
      printed="$printed$line
"
    done
  }
}
once "$@" || { sleep 5; once "$@"; }
