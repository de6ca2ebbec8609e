#!/bin/sh
# look.sh FOLDER MANIFESTS RUNTIME pull|ask: prints a line for each thing that keeps the host from going back to what
# FOLDER has:
#   authority FILE   another authority than at the time of the snapshot
#   snapshot NAME    a snapshot that is missing or damaged
#   image NAME       an image of a static pod that the host neither has nor gets
#   absent NAME      with `ask`, which pulls nothing: an image that the host does not have
folder=$1 manifests=$2 runtime=$3 mode=$4
cd "$folder" 2>/dev/null || exit 0

sed -n 's/^authority \([0-9a-f]*\) [ *]\(.*\)/\1  \2/p' record | while read -r sum file; do
    echo "$sum  $file" | sha256sum --check --status 2>/dev/null || echo "authority $file"
done
sed -n 's/^snapshot \([0-9a-f]*\) [ *]\([a-z-]*[.]db\)$/\1  \2/p' record | while read -r sum file; do
    echo "$sum  $file" | sha256sum --check --status 2>/dev/null || echo "snapshot $file"
done

# While kubelet is stopped, nothing serves Docker's images to crictl.
case $runtime in
    docker) ready='docker info' has='docker image inspect' pull='docker pull' ;;
    *) ready='crictl info' has='crictl inspecti -q' pull='crictl pull' ;;
esac
$ready >/dev/null 2>&1 || exit 0
sed -n 's/^ *image: *//p' "settings$manifests"/*.yaml 2>/dev/null | sort -u | while read -r image; do
    if $has "$image" >/dev/null 2>&1; then continue; fi
    if [ "$mode" = ask ]; then echo "absent $image"; continue; fi
    timeout 300 $pull "$image" >/dev/null 2>&1 || echo "image $image"
done
