#!/bin/sh
# survive.sh STEP: steps of a recovery from one member. Settings are in the environment: UNIT, DATA, KEPT (the name
# under which data is kept), ETCDCTL and its variables, SECONDS_TO_WAIT.
#
#   revision  prints the revision of the stopped member's data
#   leave     sets the data of this host's member aside
#   force     starts the member as the only one of its cluster, then settle
#   settle    restarts it without --force-new-cluster
set -eu
umask 077
dropin=/run/systemd/system/$UNIT.service.d/recover.conf

stopped() {
    case $(systemctl is-active "$UNIT.service") in
        inactive | failed) ;;
        *) echo "$UNIT.service on this host still runs. Stop it, and run the playbook again." >&2; exit 1 ;;
    esac
}

serves() {
    for _ in $(seq "$SECONDS_TO_WAIT"); do
        ! "$ETCDCTL" --command-timeout=4s get / --limit=1 --keys-only >/dev/null 2>&1 || return 0
        sleep 1
    done
    echo "$UNIT.service did not serve $SECONDS_TO_WAIT seconds after its start. See journalctl -u $UNIT there." >&2
    exit 1
}

settle() {
    rm -f "$dropin"
    systemctl daemon-reload
    # Waits for the new process: the old one would answer, too.
    timeout "$SECONDS_TO_WAIT" systemctl restart "$UNIT.service"
    serves
    echo settled
}

case $1 in
    revision)
        stopped
        tool=$ETCDCTL
        ! command -v etcdutl >/dev/null || tool=etcdutl
        # A copy: the tool may write to the file that it reads.
        copy=$(mktemp -d -p "$DATA")
        trap 'rm -rf "$copy"' EXIT
        cp "$DATA/member/snap/db" "$copy/db"
        found=$("$tool" snapshot status "$copy/db" --write-out=json | sed -n 's/.*"revision":\([0-9]*\).*/\1/p')
        echo "revision=${found:?}"
        ;;
    leave)
        stopped
        rm -f "$DATA/established"
        [ ! -e "$DATA/member" ] || mv "$DATA/member" "$DATA/$KEPT"
        ;;
    force)
        stopped
        [ -e "$DATA/$KEPT" ] || { cp -a "$DATA/member" "$DATA/$KEPT.new" && mv "$DATA/$KEPT.new" "$DATA/$KEPT"; }
        mkdir -p "${dropin%/*}"
        printf '[Service]\nEnvironment=ETCD_FORCE_NEW_CLUSTER=true\n' >"$dropin"
        systemctl daemon-reload
        systemctl start --no-block "$UNIT.service"
        serves
        settle
        ;;
    settle) [ ! -e "$dropin" ] || settle ;;
esac
