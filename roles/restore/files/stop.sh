#!/bin/sh
# stop.sh NAMESPACE...: stops kubelet, the pods of these namespaces, and etcd. API servers must not run while etcd's
# data changes.
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
    pgrep -x kube-apiserver >/dev/null || exit 0
    sleep 1
done
echo "A kube-apiserver still runs $second seconds after it was to stop. Stop it, then run the restore again." >&2
exit 1
