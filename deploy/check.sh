#!/usr/bin/env bash
# Checks what is in this folder, as far as that goes without Prometheus, Grafana, systemd, a container
# runtime or Kubernetes running. Tools that are missing are put into .tools, nowhere else.
# TestDeployFiles_MetricsExist in metrics does the rest.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=$PWD/.tools
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

step() { printf -- '-- %s\n' "$*"; }

promtool=$tools/promtool-deb/usr/bin/promtool
step "promtool, out of Debian's package prometheus"
scripts/prometheus

step "alert rules"
"$promtool" check rules deploy/prometheus/rules.yml
"$promtool" test rules deploy/prometheus/rules_test.yml

step "expressions of the dashboard, as rules"
{
	echo '{"groups": [{"name": "dashboard", "rules": ['
	grep -oE '"expr": "([^"\\]|\\.)*"' deploy/grafana/dashboard.json |
		sed 's/\$__rate_interval/5m/g; s/\$__range/5m/g; s/\$election/.+/g; s/\$bucket/.+/g' |
		awk '{ printf "%s{\"record\": \"panel:%d\", %s}\n", (NR > 1 ? "," : ""), NR, $0 }'
	echo ']}]}'
} >"$scratch/dashboard.yml"
"$promtool" check rules "$scratch/dashboard.yml"

step "container file: every source is there, and what it builds from them runs"
mkdir "$scratch/src"
while read -r instruction line; do
	case $instruction in
	COPY) # files, or one directory, into a directory
		read -ra words <<<"$line"
		target=$scratch/src/${words[-1]}
		mkdir -p "$target"
		for source in "${words[@]::${#words[@]}-1}"; do
			if [ -d "$source" ]; then source=$source/.; fi
			cp -r "$source" "$target"
		done
		;;
	RUN)
		(cd "$scratch/src" && eval "${line/ -o \/natsleader / -o $scratch/natsleader }")
		;;
	esac
done < <(sed '/^FROM scratch/,$d' deploy/Containerfile)
version=$(sed -n 's/^go \([0-9]*\.[0-9]*\).*/\1/p' go.work)
if ! grep -q "/golang:$version AS build" deploy/Containerfile; then
	echo "it does not build with Go $version, as go.work says"
	exit 1
fi
if [ "$(id -u)" = 0 ]; then # as alone as in its image
	mkdir -p "$scratch/image/usr/local/bin"
	cp "$scratch/natsleader" "$scratch/image/usr/local/bin/"
	chmod 755 "$scratch" "$scratch/image"
	env -i HOME=/ "$(command -v chroot)" --userspec=65532:65532 "$scratch/image" /usr/local/bin/natsleader --version
fi

step "systemd unit"
if command -v systemd-analyze >/dev/null; then
	sed "s|/usr/local/bin/natsleader|$scratch/natsleader|" "deploy/natsleader-run@.service" >"$scratch/natsleader-run@.service"
	# systemd before version 254 does not know these two, and ignores them.
	complaints=$(systemd-analyze verify "$scratch/natsleader-run@.service" 2>&1 | grep -v 'RestartSteps\|RestartMaxDelaySec') || true
	if [ -n "$complaints" ]; then
		echo "$complaints"
		exit 1
	fi
	# An exposure of at most 3.0. Old versions cannot tell.
	if systemd-analyze security --help | grep -q -e --threshold && systemd-analyze security --help | grep -q -e --offline; then
		systemd-analyze security --offline=true --threshold=30 --no-pager "deploy/natsleader-run@.service" 2>/dev/null | tail -1
	fi
else
	echo "not checked: there is no systemd-analyze"
fi

step "Kubernetes manifest, against the schemas of Kubernetes 1.30"
validate=$tools/kubectl-validate-v0.0.4
if [ ! -x "$validate" ]; then
	GOBIN=$scratch go install sigs.k8s.io/kubectl-validate@v0.0.4
	mv "$scratch/kubectl-validate" "$validate"
fi
"$validate" --version 1.30 deploy/kubernetes.yaml

step "natsleader takes the arguments of both: it finds nothing wrong but that there is no NATS"
{
	sed -n 's/^ExecStart=//p' deploy/natsleader-run@.service
	sed -n 's/^ *command: \[\(.*\)\]$/\1/p' deploy/kubernetes.yaml | tr -d ',"'
} | sed 's/%H\|%i\|\$(POD_NAME)/x/g; s/:8080/127.0.0.1:0/; s#\$COMMAND\|/app/billing#true#' >"$scratch/commands"
[ "$(wc -l <"$scratch/commands")" = 2 ]
while read -ra words; do
	code=0
	env -i PATH="$PATH" NATS_URL=nats://127.0.0.1:1 "$scratch/natsleader" run --wait=300ms "${words[@]:2}" 2>"$scratch/complaint" || code=$?
	if [ "$code" != 124 ] || ! grep -q 'cannot connect to' "$scratch/complaint"; then
		echo "exit code $code: ${words[*]}"
		cat "$scratch/complaint"
		exit 1
	fi
done <"$scratch/commands"
