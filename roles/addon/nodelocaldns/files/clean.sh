#!/bin/sh
# Removes the rules and the interface of NodeLocal DNSCache from a host. It prints what it removed.
set -eu
work=$(mktemp)
trap 'rm -f "$work"' EXIT
for program in iptables ip6tables; do
    command -v "$program-save" >/dev/null || continue
    for table in raw filter; do
        "$program-save" -t "$table" 2>/dev/null | awk -v table="$table" '
            /^-A .*--comment "NodeLocal DNS Cache: / { sub(/^-A/, "-D"); rules[++count] = $0 }
            END {
                if (!count) exit
                print "*" table
                for (i = 1; i <= count; i++) print rules[i]
                print "COMMIT"
            }' > "$work"
        [ -s "$work" ] || continue
        "$program-restore" --noflush < "$work"
        echo "$program $table"
    done
done
if [ -e /sys/class/net/nodelocaldns ]; then
    ip link delete nodelocaldns
    echo nodelocaldns
fi
