# shellcheck shell=bash disable=SC2154
# Writes to the volumes of probes on this node, at PLACE in each; lib.sh comes before this file. Standard input has a
# line for each: the uid of the pod, and the StorageClass.

# mounted UID: a process of the pod that has the volume; a pod has others, such as that which holds its network
mounted() {
  local place process
  for place in $(grep -lsE "$1|${1//-/_}" /proc/[0-9]*/cgroup); do
    process=${place//[^0-9]/}
    awk -v place="$PLACE" '$5 == place { found = 1 } END { exit !found }' "/proc/$process/mountinfo" 2>/dev/null &&
      echo "$process" && return
  done
  return 1
}

# written FILE TEXT: the text is on the disk, and is read again
written() {
  dd of="$1" conv=fsync,excl oflag=nofollow status=none <<<"$2" && [ "$(dd if="$1" iflag=nofollow status=none)" = "$2" ]
}

while read -r uid class; do
  if ! process=$(mounted "$uid"); then
    say volume.write fail "no process has the volume of $class"
    continue
  fi
  file=/proc/$process/root$PLACE/windlass-probe-$uid start=$EPOCHREALTIME
  if error=$(written "$file" "probe $uid $start" 2>&1); then
    say volume.write pass "$class in $(since "$start")"
  else
    say volume.write fail "$class: ${error:-another text is read than was written}"
  fi
  rm -f "$file"
done
