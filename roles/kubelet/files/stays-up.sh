#!/bin/sh
# Fails unless one process of kubelet lives for ten seconds.
process() {
    systemctl show --property MainPID --value kubelet.service
}

for _ in 1 2 3 4 5 6; do
    pid=$(process)
    sleep 10
    [ "$pid" = 0 ] || [ "$(process)" != "$pid" ] || exit 0
done
echo "kubelet does not stay up with its new settings. It printed:" >&2
journalctl --unit kubelet.service --lines 15 --output cat --no-pager >&2
exit 1
