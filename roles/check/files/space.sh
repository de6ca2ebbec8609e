#!/bin/sh
# space.sh [FOLDER...] [BYTES:FOLDER:FILE...]: prints a line for each file system of these folders.
#
#   room FREE NEEDED MOUNT FOLDER[,FOLDER...]   free and needed MiB; NEEDED is the sum of BYTES, each of which is to be
#                                               written into FOLDER as long as FILE does not exist
for entry; do
  bytes=0 folder=$entry
  case $entry in
    [0-9]*:*:*)
      bytes=${entry%%:*} folder=${entry#*:}
      [ ! -e "${folder#*:}" ] || bytes=0
      folder=${folder%%:*} ;;
  esac
  place=$folder
  while [ ! -d "$place" ]; do place=$(dirname "$place"); done
  df -Pk "$place" 2>/dev/null | bytes=$bytes folder=$folder awk '
    NR == 2 && NF == 6 { print $4, ENVIRON["bytes"], $6, ENVIRON["folder"] }
  '
done | awk '
  # A server may report any size, and some awks print at most 2147483647.
  function mebibytes(bytes) { return bytes < 999999999 * 1048576 ? (bytes + 1048575) / 1048576 : 999999999 }
  { free[$3] = $1; bytes[$3] += $2 }
  !(($3, $4) in seen) { seen[$3, $4]; folders[$3] = folders[$3] (folders[$3] ? "," : "") $4 }
  END {
    for (mount in free)
      printf "room %d %d %s %s\n", free[mount] / 1024, mebibytes(bytes[mount]), mount, folders[mount]
  }
'
