# shellcheck shell=bash
# Functions of the scripts. Each script prints a line for each observation, CHECK STATUS TEXT, and only reads.
# Settings are in the environment.
say() {
  local text=${3//[^[:print:]]/?}
  printf '%s %s %s\n' "$1" "$2" "${text:0:300}"
}

# judge COMMAND...: the status by the outcome of a test
judge() { if "$@"; then echo pass; else echo fail; fi; }

milliseconds() { awk -v seconds="$1" 'BEGIN { printf "%.1f ms", seconds * 1000 }'; }
since() { milliseconds "$(awk -v a="$1" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }')"; }

# etcd_metrics: prints the metrics of the member at ETCDCTL_ENDPOINTS
etcd_metrics() {
  curl -s -m 10 --cacert "$ETCDCTL_CACERT" --cert "$ETCDCTL_CERT" --key "$ETCDCTL_KEY" "$ETCDCTL_ENDPOINTS/metrics"
}
# latency METRIC: the number of values in a histogram on standard input, in seconds, and the milliseconds below which 99
# of 100 lie. A plus sign follows if only the last bound is known: more than that.
latency() {
  awk -v metric="$1_bucket{" '
    index($1, metric) == 1 {
      bound[++rows] = $1
      sub(/.*le="/, "", bound[rows])
      sub(/".*/, "", bound[rows])
      below[rows] = $2
    }
    END {
      if (!rows || !below[rows]) exit
      for (row = 1; row < rows && below[row] < below[rows] * 0.99; row++);
      if (row < rows) printf "%d %s\n", below[rows], bound[row] * 1000
      else printf "%d %s+\n", below[rows], bound[rows - 1] * 1000
    }'
}

# plain ADDRESS: the address in one form: without brackets, and of IPv6 its eight groups in lower case
plain() {
  local address=${1#\[}
  address=${address%\]}
  case $address in *:*) ;; *) echo "$address" && return ;; esac
  awk -v address="${address,,}" 'BEGIN {
    parts = split(address, halves, "::")
    left = split(halves[1], groups, ":")
    right = parts > 1 ? split(halves[2], rest, ":") : 0
    for (n = left + 1; n <= 8 - right; n++) groups[n] = 0
    for (n = 1; n <= right; n++) groups[8 - right + n] = rest[n]
    for (n = 1; n <= 8; n++) {
      sub(/^0+/, "", groups[n])
      line = line (n > 1 ? ":" : "") (groups[n] == "" ? 0 : groups[n])
    }
    print line
  }'
}

# resolve SERVER NAME ADDRESS: the first address of a name in the form of `plain`, of the same family as ADDRESS, by a
# question in the form of RFC 1035
resolve() {
  local question='\x12\x34\x01\0\0\x01\0\0\0\0\0\0' part type='\x01' length=4
  case $3 in *:*) type='\x1c' length=16 ;; esac
  for part in ${2//./ }; do question+=$(printf '\\x%02x%s' ${#part} "$part"); done
  # Bash would send a datagram for each newline, which the length of `kubernetes` is.
  question=$(printf "$question"'\0\0'"$type"'\0\x01' | base64 -w 0)
  exec 9<>"/dev/udp/$1/53" || return
  base64 -d <<<"$question" >&9
  timeout 3 dd bs=512 count=1 status=none <&9 | tail -c $length | od -An -v -w16 -t"$([ $length = 4 ] && echo u1 ||
      echo x1)" |
    awk '
      NF == 4 { print $1 "." $2 "." $3 "." $4 }
      NF == 16 {
        for (n = 1; n < 16; n += 2) {
          group = $n $(n + 1)
          sub(/^0+/, "", group)
          line = line (n > 1 ? ":" : "") (group == "" ? 0 : group)
        }
        print line
      }'
  exec 9>&-
}
