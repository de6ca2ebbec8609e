# Arguments: the overlay's options, where it is mounted, the script that joins control groups and becomes a command,
# the host's control groups, `--`, the command of systemd-nspawn.
#
# The mount is made in this private mount namespace: it disappears with the last process of the host, whatever happens.
mount -t overlay windlass-lab -o "$1" "$2"
join=$3
shift 3

while :; do
    status=0
    sh -euc "$join" windlass-lab "$@" || status=$?
    # This status is a guest's wish to be started again: `reboot` works as on any host.
    [ "$status" = 133 ] || exit "$status"
    for group; do
        [ "$group" != -- ] || break
        find "$group" -mindepth 1 -depth -type d -exec rmdir {} +
    done
done
