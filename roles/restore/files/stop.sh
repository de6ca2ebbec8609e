#!/bin/sh
# stop.sh NAMESPACE...: stops kubelet, the pods of these namespaces, and etcd. API servers must not run while etcd's
# data changes. ETCD_PROCESS matches the command line of a member in a pod.
set -eu

[ ! -e /etc/systemd/system/kubelet.service ] || systemctl stop kubelet.service
for namespace; do
    if crictl pods --quiet >/dev/null 2>&1; then
        crictl pods --quiet --state Ready --namespace "$namespace" | xargs -r crictl stopp
    fi
    # crictl may reach the containerd of Docker's packages, which has no pods.
    if command -v docker >/dev/null && docker info >/dev/null 2>&1; then
        docker ps --quiet --filter "label=io.kubernetes.pod.namespace=$namespace" | xargs -r docker stop --time 10
    fi
done
for unit in etcd etcd-events; do
    [ ! -e "/etc/systemd/system/$unit.service" ] || systemctl stop "$unit.service"
done
for second in $(seq 30); do
    left=$(pgrep -x kube-apiserver >/dev/null && echo kube-apiserver || true)
    # A member in a pod
    [ -z "${ETCD_PROCESS:-}" ] || ! pgrep --ns $$ --nslist net -f -- "$ETCD_PROCESS" >/dev/null ||
        left="${left:+$left and }etcd"
    [ -n "$left" ] || exit 0
    sleep 1
done
echo "$left still runs $second seconds after it was to stop. Stop it, then run the restore again." >&2
exit 1
