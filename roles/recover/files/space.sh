#!/bin/sh
# space.sh STEP: steps that free the database of etcd. Settings are in the environment: ETCDCTL and its variables,
# OTHERS (endpoints of the other members), UNSAFE, SECONDS_TO_WAIT.
#
#   compact     drops all revisions but the current one
#   defragment  gives the free space of this host's member back, while the other members are a majority
#   disarm      clears the alarm and writes a key
#   size        prints the size of this host's member
set -eu

reads() { ETCDCTL_ENDPOINTS=$1 "$ETCDCTL" --command-timeout=5s get / --limit=1 --keys-only >/dev/null 2>&1; }
status() { "$ETCDCTL" --command-timeout=10s endpoint status --write-out=json | sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p"; }

size() { echo "$(($(status dbSize) / 1048576)) MiB, $(($(status dbSizeInUse) / 1048576)) MiB in use"; }

case $1 in
    compact)
        revision=$(status revision)
        output=$("$ETCDCTL" --command-timeout=300s compaction --physical "${revision:?}" 2>&1) || case $output in
            *'has been compacted'*) ;;
            *) echo "etcd was not compacted to the revision $revision: $output" >&2; exit 1 ;;
        esac
        echo "compacted to the revision $revision"
        ;;
    defragment)
        all=1 healthy=0
        for other in $OTHERS; do
            all=$((all + 1))
            ! reads "$other" || healthy=$((healthy + 1))
        done
        if [ $all -gt 1 ] && [ $((healthy * 2)) -le $all ] && [ -z "$UNSAFE" ]; then
            echo "The member was not defragmented: $healthy of the $((all - 1)) other members serve, which is no" \
                "majority without this one. Bring one back, or set allow_unsafe_quorum to true." >&2
            exit 1
        fi
        "$ETCDCTL" --command-timeout=600s defrag
        end=$(($(date +%s) + SECONDS_TO_WAIT))
        while [ "$(date +%s)" -lt $end ]; do
            ! reads "$ETCDCTL_ENDPOINTS" || exit 0
            sleep 1
        done
        echo "The member did not serve $SECONDS_TO_WAIT seconds after it was defragmented." >&2
        exit 1
        ;;
    disarm)
        "$ETCDCTL" --command-timeout=30s alarm disarm >/dev/null
        if ! output=$("$ETCDCTL" --command-timeout=30s put /windlass/recover written 2>&1); then
            echo "etcd still refuses writes: $output Raise etcd_quota_backend_bytes with playbooks/cluster.yml, and" \
                "run this again." >&2
            exit 1
        fi
        "$ETCDCTL" --command-timeout=30s del /windlass/recover >/dev/null
        size
        ;;
    size) size ;;
esac
