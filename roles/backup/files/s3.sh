# shellcheck shell=sh
# Functions of backup.sh and download.sh, which follow in one text: the folder BACKUP_S3_URL of a bucket, and its
# archives of the cluster BACKUP_NAME. The server is not trusted: names, sizes and times are limited.
s3_empty=$(sha256sum </dev/null | cut -d ' ' -f 1)

# s3 OPTION...: one signed request, of six hours at most. The keys go through a pipe, so that no list of processes shows
# them.
s3() {
    printf 'user = "%s:%s"\n' "$BACKUP_S3_ACCESS_KEY" "$BACKUP_S3_SECRET_KEY" |
        curl --silent --show-error --fail --retry 3 --connect-timeout 30 --speed-limit 1000 --speed-time 60 \
            --max-time 21600 --retry-max-time 21600 --proto '=http,https' \
            --config - --aws-sigv4 "aws:amz:$BACKUP_S3_REGION:s3" "$@"
}

# s3_get BYTES FILE ADDRESS: a server need not say how much it sends, so the file has a limit too.
s3_get() {
    (
        ulimit -f $(($1 / 512 + 1))
        s3 --max-filesize "$1" --header "x-amz-content-sha256: $s3_empty" --output "$2" "$3"
    )
}

# s3_list FOLDER: writes TIME NAME of each archive to FOLDER/archives, the newest first, without times that are to come.
# A page of the listing has up to 1000 names in order. Names that are repeated or out of order are refused, because a
# retention would count them twice.
s3_list() {
    server=$(printf %s "$BACKUP_S3_URL" | sed -E 's|^(https?://[^/]+)/.*|\1|')
    path=${BACKUP_S3_URL#"$server"/}
    bucket=${path%%/*}
    folder=
    [ "$bucket" = "$path" ] || folder=${path#*/}/
    prefix=$(printf %s "$folder$BACKUP_NAME-" | sed 's|/|%2F|g')
    after=
    : >"$1/names"
    for page in $(seq 100); do
        # The signature needs the parameters in order.
        s3_get 4000000 "$1/page" "$server/$bucket?list-type=2&prefix=$prefix${after:+&start-after=$after}" || return 1
        tr '<' '\n' <"$1/page" | sed -n 's|^Key>||p' >"$1/keys"
        # None of folders below it.
        awk -v folder="$folder" 'index($0, folder) == 1 { $0 = substr($0, length(folder) + 1); if (!/\//) print }' \
            "$1/keys" >>"$1/names"
        grep -q '<IsTruncated>true<' "$1/page" || break
        last=$(tail -n 1 "$1/keys")
        case $last in
        '' | *[!0-9A-Za-z._/-]*)
            echo "The listing cannot go on after the name \`$last\`." | tr -cd '[:print:]\n' >&2
            return 1
            ;;
        esac
        after=$(printf %s "$last" | sed 's|/|%2F|g')
    done
    name=$(printf %s "$BACKUP_NAME" | sed 's/\./\\./g')
    sed -nE "s/^($name-([0-9]{8}T[0-9]{6}Z)\.tar\.gz(\.age)?)\$/\2 \1/p" "$1/names" >"$1/found"
    sort -cu "$1/found" 2>/dev/null || { echo "The server lists archives twice or out of order." >&2; return 1; }
    awk -v end="$(date -u -d '+1 day' +%Y%m%dT%H%M%SZ)" '$1 < end' "$1/found" | sort -r >"$1/archives"
}
