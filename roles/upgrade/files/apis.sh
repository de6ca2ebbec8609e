#!/bin/sh
# apis.sh BIN_DIR KUBECONFIG SERVER [RESOURCE KIND VERSION USE]...: finds objects that a later release does not read, or
# whose clients it does not serve. USE is `lost` if the release loses the objects of this version, else `served`.
# Prints lines STATE, COUNT, SUBJECT and OBJECTS with tabs between them:
#   lost      objects of a version that is lost
#   missing   definitions of custom objects with a stored version that they do not have
#   unserved  definitions of custom objects with a stored version that they do not serve
#   written   objects that a manager wrote in the version, or that kubectl applied last in it
# At most 20 lines name three objects each. %+q keeps a name on one line and in printable ASCII.
bin=$1 config=$2 server=$3
shift 3
kubectl() { "$bin/kubectl" --kubeconfig="$config" --server="$server" --request-timeout=60s "$@"; }
# A failure among the lines, because a pipe only has the status of its last command.
list() { kubectl get "$@" || echo failed; }

objects='{{range .items -}}
  {{printf "object\t%+.63q\t%+.63q\t%+.63q\t%+.253q\n" .kind .apiVersion (or .metadata.namespace "") .metadata.name -}}
  {{range .metadata.managedFields -}}
    {{printf "manager\t%+.63q\t%+.128q\n" (or .apiVersion "") (or .manager "unknown") -}}
  {{end -}}
  {{with .metadata.annotations}}{{with index . "kubectl.kubernetes.io/last-applied-configuration" -}}
    {{printf "applied\t%+.80q\n" . -}}
  {{end}}{{end -}}
{{end}}'
definitions='{{range .items -}}
  {{printf "crd\t%+.253q\n" .metadata.name -}}
  {{range .spec.versions}}{{printf "has\t%+.63q\t%t\n" .name .served}}{{end -}}
  {{range .status.storedVersions}}{{printf "stored\t%+.63q\n" .}}{{end -}}
{{end}}'

served=$(kubectl api-resources --verbs=list --output=name)
[ -n "$served" ] || exit 1
# A kind may have two versions that end.
resources=$(while [ $# -ge 4 ]; do echo "$1"; shift 4; done | sort -u | grep -Fx -e "$served" | paste -sd , -)
found=$(
  {
    [ -z "$resources" ] || list "$resources" --all-namespaces --output="go-template=$objects"
    list customresourcedefinitions.apiextensions.k8s.io --output="go-template=$definitions"
  } | awk -v table="$*" '
    BEGIN {
      FS = "\t"
      words = split(table, word, " ")
      for (i = 1; i < words; i += 4) use[word[i + 1] " of " word[i + 2]] = word[i + 3]
    }
    function note(state, subject, name) {
      key = state FS subject
      if (latest[key] == name || !(key in count) && ++keys > 1000) return
      latest[key] = name
      if (++count[key] <= 3) names[key] = names[key] (count[key] > 1 ? ", " : "") name
    }
    function is(subject, state) { return subject in use && use[subject] == state }
    { gsub(/[\\"]/, "") }
    $1 == "failed" { failed = 1 }
    $1 == "object" {
      kind = $2
      name = ($4 == "" ? "" : $4 "/") $5
      if (is(kind " of " $3, "lost")) note("lost", kind " of " $3, name)
    }
    # Components of Kubernetes are upgraded themselves. The annotation has the last version of `kubectl apply`.
    $1 == "manager" && is(kind " of " $2, "served") &&
      $3 !~ /^(kube-(apiserver|controller-manager|scheduler)|kubelet|kubeadm|kubectl-client-side-apply)$/ &&
      $3 !~ /^api-priority-and-fairness-/ { note("written", kind " of " $2 " by " $3, name) }
    $1 == "applied" && sub(/^[{]apiVersion:/, "", $2) {
      sub(/,.*/, "", $2)
      if (is(kind " of " $2, "served")) note("written", kind " of " $2 " by kubectl apply", name)
    }
    $1 == "crd" { name = $2; split("", served) }
    $1 == "has" { served[$2] = $3 }
    $1 == "stored" {
      if (!($2 in served)) note("missing", "definitions", name " (" $2 ")")
      else if (served[$2] != "true") note("unserved", "definitions", name " (" $2 ")")
    }
    END {
      if (failed) exit 1
      for (key in count) { split(key, part); printf "%s\t%d\t%s\t%s\n", part[1], count[key], part[2], names[key] }
    }'
) || exit 1
printf '%s\n' "$found" | sort -t "$(printf '\t')" -k1,1 -k2,2nr -k3 | head -n 20
