# Arguments: the overlay's options, its mount point, the script that joins control groups and executes a command,
# the host's control groups, `--`, the command of systemd-nspawn.
#
# The mount is private to this mount namespace, so it always disappears with the host's last process.
mount -t overlay windlass-lab -o "$1" "$2"
join=$3
shift 3

while :; do
    status=0
    sh -euc "$join" windlass-lab "$@" || status=$?
    # A guest that exits with this status wants a restart: `reboot` works as on any host.
    [ "$status" = 133 ] || exit "$status"
    for group; do
        [ "$group" != -- ] || break
        find "$group" -mindepth 1 -depth -type d -exec rmdir {} +
    done
done
