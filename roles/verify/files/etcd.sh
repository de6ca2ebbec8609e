# shellcheck shell=bash disable=SC2154
# Observations of the host's member of etcd; lib.sh comes before this file. CLUSTER and PORT are the cluster's unit and
# port for clients, NAME the member's name, MEMBERS the names of the inventory's members.
export ETCDCTL_API=3 ETCDCTL_CACERT ETCDCTL_CERT ETCDCTL_KEY ETCDCTL_ENDPOINTS=https://127.0.0.1:$PORT
etcdctl() { "$BIN_DIR/etcdctl" --command-timeout=5s --dial-timeout=3s "$@" 2>&1; }
field() { sed -n "s/.*\"$1\":\([0-9a-zA-Z]*\).*/\1/p" <<<"$answer" | head -n 1; }

if ! answer=$(etcdctl endpoint health); then
  say etcd.health fail "$NAME: $(tail -n 1 <<<"$answer" | sed 's/.*"error":"\(.*\)".*/\1/')"
  exit 0
fi
say etcd.health pass "$NAME: $(grep -o 'took = .*' <<<"$answer")"

alarms=$(etcdctl alarm list | grep -o 'alarm:[A-Z]*' | sort -u | tr '\n' ' ')
say etcd.alarms "$(judge [ -z "$alarms" ])" "${alarms:-none}"

# A member without a name was announced and has never started.
members=$(etcdctl member list --write-out=simple)
for wanted in $MEMBERS; do
  grep -qF ", $wanted, " <<<"$members" || say etcd.members fail "$wanted is in the inventory, and no member"
done
while IFS=',' read -r id state member _ _ learner; do
  member=${member# } state=${state# } learner=${learner# }
  if [[ " $MEMBERS " != *" $member "* ]]; then
    say etcd.members warn "the member ${member:-without a name} ($id) is not in the inventory"
  elif [ "$state" != started ]; then
    say etcd.members fail "$member is $state"
  elif [ "$learner" = true ]; then
    say etcd.members warn "$member is a learner, which has no vote"
  else
    say etcd.members pass "$member"
  fi
done <<<"$members"

answer=$(etcdctl endpoint status --write-out=json)
leader=$(field leader)
say etcd.leader "$(judge [ "${leader:-0}" != 0 ])" "$NAME: the leader is ${leader:-none}, of term $(field raftTerm)"
say leader "$CLUSTER" "${leader:-none}"

metrics=$(etcd_metrics)
value() { awk -v name="$1" '$1 == name { printf "%.0f", $2 }' <<<"$metrics"; }
size=$(value etcd_mvcc_db_total_size_in_bytes)
used=$(value etcd_mvcc_db_total_size_in_use_in_bytes)
quota=$(value etcd_server_quota_backend_bytes)
if [ "${size:-0}" -gt 0 ]; then
  [ "${quota:-0}" -gt 0 ] || quota=2147483648
  share=$((size * 100 / quota)) status=pass
  [ $share -lt 80 ] || status=warn
  [ $share -lt 95 ] || status=fail
  say etcd.size $status "$NAME: $((size / 1048576)) MiB of $((quota / 1048576)), $share %"
  status=pass unused=$(((size - used) * 100 / size))
  [ $unused -lt 50 ] || [ "$size" -lt 104857600 ] || status=warn
  say etcd.fragmentation $status "$NAME: $unused % of the file is unused"
fi
slow() { # slow CHECK METRIC LIMIT WHAT
  local bound status
  bound=$(latency "$2" <<<"$metrics" | cut -d ' ' -f 2)
  case $bound in
    '') ;;
    *+) say "$1" warn "$NAME: 99 of 100 $4 take more than ${bound%+} ms" ;;
    *)
      status=$(awk -v bound="$bound" -v limit="$3" 'BEGIN { print (bound > limit ? "warn" : "pass") }')
      say "$1" "$status" "$NAME: 99 of 100 $4 take at most $bound ms"
      ;;
  esac
}
slow etcd.fsync etcd_disk_wal_fsync_duration_seconds "$FSYNC_MILLISECONDS" "writes of the log"
slow etcd.commit etcd_disk_backend_commit_duration_seconds "$COMMIT_MILLISECONDS" commits
exit 0
