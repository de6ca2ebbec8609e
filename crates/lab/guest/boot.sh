# Mounts one host's overlay in this private mount namespace, then becomes systemd-nspawn.
# The mount disappears with the last process of the host, so no crash can leave it behind.
mount -t overlay windlass-lab -o "$1" "$2"
shift 2
exec "$@"
