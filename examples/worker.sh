#!/usr/bin/env bash
# A worker made of bash, curl and jq: runs one command for every job it claims from a Euterpe control plane.
#
#   EUTERPE_URL=http://127.0.0.1:8080 EUTERPE_KEY=ek_... examples/worker.sh ./render.sh --quiet
#
# The command gets the payload as JSON on its standard input, and JOB_ID, JOB_TYPE, JOB_ATTEMPT and ATTEMPT_ID in its
# environment. What it prints is the result (as JSON if it is JSON, else as text). Its exit status says how it went:
# 0 done, 65 failed for good (EX_DATAERR), anything else failed for now and may be tried again. Its standard error
# becomes the error's stack. SIGTERM gives the job in hand back unharmed and ends the worker.
#
#   EUTERPE_QUEUES        queues in order of preference, separated by commas (default)
#   EUTERPE_TYPES         only these job types, separated by commas (any)
#   EUTERPE_MAX_WAIT_MS   how long one claim waits for a job (20000)
#   EUTERPE_WORKER_ID     the worker's name; a fresh id is always added (the host's name)
set -uo pipefail

url=${EUTERPE_URL:-http://127.0.0.1:8080}
key=${EUTERPE_KEY:?set EUTERPE_KEY to a key with scope worker}
max_wait_ms=${EUTERPE_MAX_WAIT_MS:-20000}
[ $# -gt 0 ] || { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2; }
for tool in curl jq; do command -v "$tool" >/dev/null || { echo "worker.sh needs $tool" >&2; exit 1; }; done

# A restarted worker must never look like its dead self.
boot_id=$(cat /proc/sys/kernel/random/uuid 2>/dev/null || uuidgen)
worker_id=${EUTERPE_WORKER_ID:-${HOSTNAME:-worker}}:$boot_id
work=$(mktemp -d)
# Not an EXIT trap: bash also runs that in a child which a signal hits before it has become its command.
finish() { rm -rf "$work"; exit "$1"; }

say() { printf '%s %s\n' "$(date -u +%H:%M:%S)" "$*" >&2; }

# post PATH [CURL OPTION...] : JSON on standard input; prints the answer's body, and its status on a last line.
# The key goes in by a file descriptor: on the command line everybody on the machine could read it.
# Always called in a subshell, which curl replaces: whoever kills it kills the request, and the server notices.
post() {
    local path=$1
    shift
    exec curl --silent --show-error --request POST "$url/internal/worker/$path" "$@" \
        --config <(printf 'header = "Authorization: Bearer %s"\n' "$key") \
        --header 'Content-Type: application/json' --data-binary @- --write-out '\n%{http_code}'
}

# A report is safe to repeat: the same one again gets the first answer.
report() { post "$1" --retry 8 --retry-all-errors --retry-max-time 60 --max-time 30; }

stopping='' curl_pid='' command_pid='' heart_pid=''
stop() {
    stopping=yes
    [ -z "$curl_pid" ] || kill "$curl_pid" 2>/dev/null
    [ -z "$command_pid" ] || kill -TERM -- "-$command_pid" 2>/dev/null
}
trap stop TERM INT

# Waits for a child even when a signal interrupts the waiting.
wait_for() {
    local status
    while :; do
        wait "$1"
        status=$?
        kill -0 "$1" 2>/dev/null || return "$status"
    done
}

claim_body=$(jq -n --arg worker_id "$worker_id" --arg queues "${EUTERPE_QUEUES:-default}" \
    --arg types "${EUTERPE_TYPES:-}" --argjson wait "$max_wait_ms" \
    '{worker_id: $worker_id, streams: ($queues | split(",")), max_wait_ms: $wait}
     + if $types == "" then {} else {types: ($types | split(","))} end') || finish 2

# Renews the lease until it is lost or the job is cancelled; says which in $work/verdict and stops the command.
beat() {
    local every=$1 lease=$2 group=$3 answer status
    while sleep "$every"; do
        answer=$(post heartbeat --max-time 10 <<<"$lease") || continue # the next beat may get through
        status=${answer##*$'\n'}
        case $status in
            200) [ "$(jq -r .cancel_requested <<<"${answer%$'\n'*}")" = true ] && { echo cancelled >"$work/verdict"; break; } ;;
            409) echo lost >"$work/verdict"; break ;;
        esac
    done
    kill -TERM -- "-$group" 2>/dev/null
}

run_job() {
    local job=$1 lease started status verdict body answer
    shift
    lease=$(jq -c --arg worker_id "$worker_id" \
        '{worker_id: $worker_id, job_id, attempt_id, lease_token, stream: .stream.name, message_id: .stream.message_id}' <<<"$job")
    rm -f "$work/verdict"
    : >"$work/out" >"$work/err" # a command that is stopped at once may not even have opened them
    jq -c .payload <<<"$job" >"$work/payload"
    export JOB_ID JOB_TYPE JOB_ATTEMPT ATTEMPT_ID
    IFS=$'\t' read -r JOB_ID JOB_TYPE JOB_ATTEMPT ATTEMPT_ID beat_every \
        < <(jq -r '[.job_id, .type, .attempt, .attempt_id, .heartbeat_interval_seconds] | @tsv' <<<"$job")
    started=$SECONDS
    # A process group of its own: stopping the job stops all that it started.
    set -m
    "$@" <"$work/payload" >"$work/out" 2>"$work/err" &
    command_pid=$!
    beat "$beat_every" "$lease" "$command_pid" &
    heart_pid=$!
    set +m
    [ -z "$stopping" ] || stop
    wait_for "$command_pid"
    status=$?
    command_pid=''
    kill -TERM -- "-$heart_pid" 2>/dev/null
    wait_for "$heart_pid"
    verdict=$(cat "$work/verdict" 2>/dev/null)
    case $verdict:$stopping:$status in
        lost:*) say "$JOB_ID lost its lease; nothing is reported"; return ;;
        cancelled:*) body='{error: {code: "cancelled", message: "stopped on request", category: "cancelled"}}' ;;
        :*:0) body='{result: (try ($out | fromjson) catch $out)}' ;;
        :yes:*) body='{released: true}' ;;
        *) body='{error: {code: "exit_\($status)", message: "the command ended with status \($status)",
                          stack: $err, retryable: ($status != 65)}}' ;;
    esac
    answer=$(jq -c --argjson status "$status" --rawfile out "$work/out" --rawfile err "$work/err" \
        '($out | rtrimstr("\n")) as $out | ($err | explode | map(select(. != 0)) | implode) as $err | . + '"$body" <<<"$lease" |
        report "$([[ $body == '{result'* ]] && echo complete || echo fail)")
    say "$JOB_ID $JOB_TYPE attempt $JOB_ATTEMPT: status $status after $((SECONDS - started)) s, answered ${answer##*$'\n'}"
}

say "worker $worker_id asks $url"
while [ -z "$stopping" ]; do
    post claim --max-time $((max_wait_ms / 1000 + 15)) <<<"$claim_body" >"$work/claim" &
    curl_pid=$!
    wait_for "$curl_pid"
    curl_pid=''
    answer=$(<"$work/claim")
    case ${answer##*$'\n'} in
        200) answer=${answer%$'\n'*} ;;
        401 | 403 | 422) say "refused: ${answer%$'\n'*}"; finish 1 ;;
        *) [ -n "$stopping" ] || { say "no answer; trying again"; sleep 1; }; continue ;;
    esac
    [ "$(jq -r .claimed <<<"$answer")" = true ] && run_job "$answer" "$@"
done
say "stopped"
finish 0
