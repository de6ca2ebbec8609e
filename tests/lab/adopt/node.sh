#!/bin/sh
# node.sh ARTIFACTS NODES: prepares this host for kubeadm by hand, as an administrator without Windlass would. NODES has
# NAME=ADDRESS=RANGE of each node, for its pods.
set -eu
artifacts=$1 nodes=$2
files=$artifacts/files/github.com
for file in "$artifacts"/files/dl.k8s.io/release/v1.20.2/bin/linux/amd64/*; do install -m 0755 "$file" /usr/bin/; done
# The tools that kubeadm's preflight asks for.
for file in conntrack socat ebtables ethtool; do command -v $file >/dev/null || missing="${missing:-} $file"; done
[ -z "${missing:-}" ] || apt-get install -y --no-install-recommends $missing >/dev/null
tar -xzf "$files"/containerd/containerd/releases/download/*/containerd-*.tar.gz -C /usr/local
install -m 0755 "$files"/opencontainers/runc/releases/download/*/runc.amd64 /usr/local/bin/runc
tar -xzf "$files"/kubernetes-sigs/cri-tools/releases/download/*/crictl-*.tar.gz -C /usr/local/bin
mkdir -p /opt/cni/bin /etc/cni/net.d /etc/containerd /etc/kubernetes
tar -xzf "$files"/containernetworking/plugins/releases/download/*/cni-plugins-*.tgz -C /opt/cni/bin

cat >/etc/containerd/config.toml <<END
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "k8s.gcr.io/pause:3.2"
  restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  SystemdCgroup = true
END
cat >/etc/systemd/system/containerd.service <<END
[Service]
ExecStart=/usr/local/bin/containerd
Type=notify
Delegate=yes
KillMode=process
Restart=always
[Install]
WantedBy=multi-user.target
END
printf 'runtime-endpoint: unix:///run/containerd/containerd.sock\n' >/etc/crictl.yaml

# As the packages of the project have them.
cat >/lib/systemd/system/kubelet.service <<END
[Unit]
Description=kubelet: The Kubernetes Node Agent
[Service]
ExecStart=/usr/bin/kubelet
Restart=always
RestartSec=10
[Install]
WantedBy=multi-user.target
END
mkdir -p /etc/systemd/system/kubelet.service.d
cat >/etc/systemd/system/kubelet.service.d/10-kubeadm.conf <<'END'
[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_BOOTSTRAP_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_BOOTSTRAP_ARGS $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS \
    $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
END
printf 'overlay\nbr_netfilter\n' >/etc/modules-load.d/by-hand.conf
sysctl -q -w net.ipv4.ip_forward=1 net.bridge.bridge-nf-call-iptables=1
printf 'net.ipv4.ip_forward = 1\nnet.bridge.bridge-nf-call-iptables = 1\n' >/etc/sysctl.d/by-hand.conf
systemctl daemon-reload
systemctl enable --now containerd.service kubelet.service 2>/dev/null

# A network of one's own: a bridge, and a route to each other node.
for entry in $nodes; do
    name=${entry%%=*} range=${entry##*=} address=${entry#*=}
    address=${address%=*}
    if [ "$name" = "$(hostname)" ]; then
        cat >/etc/cni/net.d/10-own.conflist <<END
{"cniVersion": "0.3.1", "name": "own", "plugins": [
  {"type": "bridge", "bridge": "own0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "$range"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
END
    else
        ip route replace "$range" via "$address"
    fi
done
cd "$artifacts/images"
for archive in kube-*_v1.20.2.tar pause_*.tar etcd_*.tar hello_*.tar; do
    ctr -n k8s.io images import "$archive" >/dev/null
done
