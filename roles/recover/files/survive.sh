#!/bin/sh
# survive.sh STEP: steps of a recovery from one member. Settings are in the environment: UNIT, DATA, KEPT (the name
# under which data is kept), ETCDCTL and its variables, SECONDS_TO_WAIT; and for a member in a pod MANIFEST, its static
# manifest, and POD_PROCESS, which matches its command line.
#
#   stop      stops the member; kubeadm writes a removed manifest again
#   revision  prints the revision of the stopped member's data
#   keep      copies the data of the stopped member
#   leave     sets the data of this host's member aside
#   force     starts the service as the only member of its cluster
#   settle    restarts it without --force-new-cluster
#   alone     waits until a pod that was started like that serves
#   serve     waits until a pod that was started normally serves
#   reload    restarts a pod that does not serve with its certificates, and waits at most a minute until it does
set -eu
umask 077
dropin=/run/systemd/system/$UNIT.service.d/recover.conf

pod() { pgrep --ns $$ --nslist net -f -- "$POD_PROCESS"; }

stop() {
    if [ -z "$MANIFEST" ]; then
        [ ! -e "/etc/systemd/system/$UNIT.service" ] || systemctl stop "$UNIT.service"
        return
    fi
    rm -f "$MANIFEST"
    # A kubelet that has started without an API server does not end pods whose manifest is gone.
    for second in $(seq 60); do
        processes=$(pod) || return 0
        # shellcheck disable=SC2086 # process ids
        [ $((second % 10)) != 0 ] || kill $processes 2>/dev/null || true
        sleep 1
    done
    echo "The pod of etcd on this host still runs 60 seconds after it was to stop. Stop it, and run the playbook again." \
        >&2
    exit 1
}

stopped() {
    if [ -n "$MANIFEST" ]; then
        [ -e "$MANIFEST" ] || pod >/dev/null || return 0
        echo "etcd still runs in a pod of this host. Stop it, and run the playbook again." >&2
        exit 1
    fi
    case $(systemctl is-active "$UNIT.service") in
        inactive | failed) ;;
        *) echo "$UNIT.service on this host still runs. Stop it, and run the playbook again." >&2; exit 1 ;;
    esac
}

serves() {
    end=$(($(date +%s) + SECONDS_TO_WAIT))
    while [ "$(date +%s)" -lt $end ]; do
        ! "$ETCDCTL" --command-timeout=4s get / --limit=1 --keys-only >/dev/null 2>&1 || return 0
        sleep 1
    done
    log="journalctl -u $UNIT"
    [ -z "$MANIFEST" ] || log=/var/log/pods/kube-system_etcd-*
    echo "$UNIT did not serve $SECONDS_TO_WAIT seconds after its start. See $log there." >&2
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

# pod_runs COUNT: waits until one pod runs, with --force-new-cluster (1) or without (0)
pod_runs() {
    for _ in $(seq "$SECONDS_TO_WAIT"); do
        if processes=$(pod) && [ "${processes#*[!0-9]}" = "$processes" ]; then
            found=$(tr '\0' '\n' <"/proc/$processes/cmdline" 2>/dev/null | grep -c '^--force-new-cluster' || true)
            [ "$found" != "$1" ] || return 0
        fi
        sleep 1
    done
    echo "kubelet did not start the pod of etcd within $SECONDS_TO_WAIT seconds. See journalctl -u kubelet there." >&2
    exit 1
}

# A running container keeps the folder of its certificates, also if another one has taken its place. kubelet delays
# restarts of a failed container more and more; a restart of kubelet resets the delay.
reload() {
    # shellcheck disable=SC2086 # process ids
    ! processes=$(pod) || kill $processes 2>/dev/null || true
    systemctl restart kubelet.service
    echo restarted
    SECONDS_TO_WAIT=60
    (serves) || true
}

case $1 in
    stop) stop ;;
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
    keep)
        stopped
        [ -e "$DATA/$KEPT" ] || { cp -a "$DATA/member" "$DATA/$KEPT.new" && mv "$DATA/$KEPT.new" "$DATA/$KEPT"; }
        ;;
    force)
        stopped
        mkdir -p "${dropin%/*}"
        printf '[Service]\nEnvironment=ETCD_FORCE_NEW_CLUSTER=true\n' >"$dropin"
        systemctl daemon-reload
        systemctl start --no-block "$UNIT.service"
        serves
        ;;
    settle) [ ! -e "$dropin" ] || settle ;;
    alone | serve)
        forced=0
        [ "$1" = serve ] || forced=1
        pod_runs $forced
        serves
        ;;
    reload) "$ETCDCTL" --command-timeout=4s get / --limit=1 --keys-only >/dev/null 2>&1 || reload ;;
esac
