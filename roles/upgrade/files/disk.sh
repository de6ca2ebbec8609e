# shellcheck shell=bash disable=SC2154
# Latency of the disk of the host's member of etcd; lib.sh of `verify` comes before this file. Prints for each metric
# NAME COUNT MILLISECONDS, as `latency` does.
metrics=$(etcd_metrics) || exit
for name in wal_fsync backend_commit; do
  found=$(latency "etcd_disk_${name}_duration_seconds" <<<"$metrics")
  [ -z "$found" ] || echo "$name $found"
done
