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
# A fatal error is followed by hundreds of lines about threads.
errors=$(journalctl --unit kubelet.service --lines 1000 --output cat --no-pager | grep -E '^([EF][0-9]{4} |Error: )' |
    tail -n 5)
echo "kubelet does not stay up with its new settings, see: journalctl --unit kubelet.service" >&2
echo "$errors" >&2
exit 1
