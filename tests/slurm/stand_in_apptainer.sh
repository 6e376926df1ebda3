#!/usr/bin/env bash
# Stands in for `apptainer exec` where Apptainer cannot be installed: the command runs with the image, a folder, as its
# root, in a mount namespace of its own with the mounts alone. Like Apptainer's, this process stays and passes signals on.
set -euo pipefail
[ "$1" = exec ] && shift
where=/ mounts=()
while [[ $1 == --* ]]; do
  case $1 in
    --nv) shift ;;
    --pwd) where=$2 && shift 2 ;;
    --bind) mounts+=("$2") && shift 2 ;;
    *) echo "Error for command exec: unknown flag: $1" >&2 && exit 1 ;;
  esac
done
image=$1 && shift
[ -d "$image" ] || { echo "FATAL: could not open image $image: no such file or directory" >&2 && exit 255; }
child=''
for name in USR1 TERM; do trap '[ -z "$child" ] || kill -'"$name"' "$child" 2> /dev/null || :' "$name"; done
# shellcheck disable=SC2016
unshare --mount bash -c '
  set -euo pipefail
  image=$1 where=$2 count=$3 && shift 3
  root=$(mktemp -d) && mount -t tmpfs none "$root" && cp -a "$image/." "$root"
  for place in /dev /proc /sys /tmp; do mkdir -p "$root$place" && mount --rbind "$place" "$root$place"; done
  umount -l "$root/tmp" && mkdir -p "$root/tmp"
  for mount in "${@:1:count}"; do
    IFS=: read -r source target how <<< "$mount"
    [ -e "$source" ] || { echo "FATAL: mount source $source does not exist" >&2 && exit 255; }
    if [ -d "$source" ]; then mkdir -p "$root$target"; else mkdir -p "$root${target%/*}" && touch "$root$target"; fi
    mount --bind "$source" "$root$target"
    [ "$how" != ro ] || mount -o remount,bind,ro "$root$target"
  done
  shift "$count"
  exec chroot "$root" env --chdir="$where" PATH=/usr/bin:/bin "$@"
' inside "$image" "$where" "${#mounts[@]}" "${mounts[@]}" "$@" &
child=$!
while kill -0 "$child" 2> /dev/null; do wait "$child" && code=0 || code=$?; done
exit "$code"
