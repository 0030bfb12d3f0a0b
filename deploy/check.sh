#!/usr/bin/env bash
# Checks what is in this folder, as far as that goes without Prometheus, Grafana, systemd, a container
# runtime or Kubernetes running. Tools that are missing are put into .tools, nowhere else;
# `deploy/check.sh tools` does no more than that. `deploy/check.sh quick` leaves out the schemas of Kubernetes, whose tools
# take minutes to build.
# TestDeployFiles_MetricsExist in metrics does the rest.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=$PWD/.tools
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

step() { printf -- '-- %s\n' "$*"; }

step "tools"
promtool=$tools/promtool-deb/usr/bin/promtool
scripts/prometheus
validate=$tools/kubectl-validate-v0.0.4
kustomize=$tools/kustomize-v5.8.1
if [ "${1:-}" != quick ] && [ ! -x "$validate" ]; then
	GOBIN=$scratch go install sigs.k8s.io/kubectl-validate@v0.0.4
	mv "$scratch/kubectl-validate" "$validate"
fi
if [ "${1:-}" != quick ] && [ ! -x "$kustomize" ]; then
	GOBIN=$scratch go install sigs.k8s.io/kustomize/kustomize/v5@v5.8.1
	mv "$scratch/kustomize" "$kustomize"
fi
if [ "${1:-}" = tools ]; then exit; fi

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
VERSION=v9.8.7 COMMIT=0123456789abcdef # as of --build-arg
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
for file in deploy/Containerfile packaging/Containerfile; do
	if ! grep -q "^ARG [A-Z_]*=docker.io/library/golang:$version\$" "$file"; then
		echo "$file does not take the image of Go $version, as go.work says"
		exit 1
	fi
done
for text in "\"version\": \"$VERSION\"" "\"commit\": \"$COMMIT\""; do
	if ! "$scratch/natsleader" --version --json | grep -F "$text"; then
		echo "the command in the image does not show $text"
		exit 1
	fi
done
if [ "$(id -u)" = 0 ]; then # as alone as in its image
	mkdir -p "$scratch/image/usr/local/bin"
	cp "$scratch/natsleader" "$scratch/image/usr/local/bin/"
	chmod 755 "$scratch" "$scratch/image"
	env -i HOME=/ "$(command -v chroot)" --userspec=65532:65532 "$scratch/image" /usr/local/bin/natsleader --version
	# There are no users, and so no contexts of `nats`. That is no error.
	code=0
	env -i HOME=/ NATS_URL=nats://127.0.0.1:1 "$(command -v chroot)" --userspec=65532:65532 "$scratch/image" \
		/usr/local/bin/natsleader status 2>"$scratch/complaint" || code=$?
	if [ "$code" != 69 ] || ! grep -q 'cannot connect to' "$scratch/complaint"; then
		echo "exit code $code of status in the image"
		cat "$scratch/complaint"
		exit 1
	fi
fi

step "systemd units, and their environment"
if command -v systemd-analyze >/dev/null; then
	for unit in deploy/systemd/*.service; do
		sed "s|/usr/local/bin/natsleader|$scratch/natsleader|" "$unit" >"$scratch/${unit##*/}"
		# systemd before version 254 does not know these two, and ignores them.
		complaints=$(systemd-analyze verify "$scratch/${unit##*/}" 2>&1 | grep -v 'RestartSteps\|RestartMaxDelaySec') || true
		if [ -n "$complaints" ]; then
			echo "$complaints"
			exit 1
		fi
		# An exposure of at most 3.0. Old versions cannot tell.
		if systemd-analyze security --help | grep -q -e --threshold && systemd-analyze security --help | grep -q -e --offline; then
			systemd-analyze security --offline=true --threshold=30 --no-pager "$unit" 2>/dev/null | tail -1
		fi
	done
else
	echo "not checked: there is no systemd-analyze"
fi

kubernetes() {
	step "Kubernetes: the base and the example, against the schemas of Kubernetes 1.30"
	mkdir "$scratch/manifests"
	"$kustomize" build deploy/kubernetes/base >"$scratch/manifests/base.yaml"
	"$kustomize" build deploy/kubernetes/example | # without the kinds of the Prometheus operator
		awk -v RS='---\n' -v ORS='---\n' '!/(^|\n)kind: (PodMonitor|PrometheusRule)/' >"$scratch/manifests/example.yaml"
	"$validate" --version 1.30 "$scratch/manifests"/*.yaml
	"$kustomize" build deploy/kubernetes/example >"$scratch/example.yaml"
	for text in 'kind: PodMonitor' 'kind: PrometheusRule' 'name: NATS_USER' 'name: NATS_PASSWORD' 'runAsNonRoot: true' 'readOnlyRootFilesystem: true' 'type: RuntimeDefault' 'mountPath: /tmp' \
		'name: NATS_CREDS' 'name: NATS_CA' 'name: NATS_CERT' 'name: NATS_KEY' 'topologyKey: kubernetes.io/hostname'; do
		if ! grep -qF "$text" "$scratch/example.yaml"; then
			echo "the example has no $text"
			exit 1
		fi
	done
	# Nothing is left of what the overlays replace: images without a tag, the servers, and the secrets, of which each
	# Deployment has its own.
	if grep -E '^ +image: [^ :]*$|nats://|secretName: nats-credentials$| name: nats-user$' "$scratch/example.yaml" ||
		[ -n "$(grep -oE 'secretName: nats-credentials-.*' "$scratch/example.yaml" | sort | uniq -d)" ]; then
		echo "the example has an image without a tag, other servers, or a user that two share"
		exit 1
	fi
	# The Deployment, the budget, the two spreads and the monitor of each election select its pods alone, by the labels of those.
	for election in billing reports; do
		selected=$(grep -A2 -E '(matchLabels|^      labels):' "$scratch/example.yaml" | grep -A1 "instance: $election\$" | grep -c 'name: natsleader$')
		if [ "$selected" != 6 ] || [ "$(grep -c "^  name: natsleader-$election\$" "$scratch/example.yaml")" != 3 ]; then
			echo "$selected labels and selectors are those of $election, not 6"
			exit 1
		fi
	done
	deploy/kubernetes/components/prometheusrule/generate
	git diff --exit-code deploy/kubernetes/components/prometheusrule # else commit what generate has written
	# Every volume that is mounted is there, and natsleader reads every variable.
	sed -n '/^      volumes:/,/^---/p' "$scratch/example.yaml" >"$scratch/volumes"
	for name in $(sed -n '/mountPath:/ { n; s/^ *name: //p; }' "$scratch/example.yaml"); do
		if ! grep -q " name: $name\$" "$scratch/volumes"; then
			echo "there is no volume $name"
			exit 1
		fi
	done
	for name in $(sed -n 's/^ *- name: \(NATS.*\)/\1/p' "$scratch/example.yaml") $(sed -n 's/^\(NATS[A-Z_]*\)=.*/\1/p' deploy/systemd/*.env); do
		if ! "$scratch/natsleader" --help-man | grep -qF "(\$$name)"; then
			echo "natsleader does not read $name"
			exit 1
		fi
	done
}
if [ "${1:-}" != quick ]; then kubernetes; fi

step "natsleader takes the arguments of all: it finds nothing wrong but that there is no NATS"
{
	sed -n 's/^ExecStart=//p' deploy/systemd/natsleader-run@.service
	sed -n 's/^ *command: \[\(.*\)\]$/\1/p' deploy/kubernetes/base/deployment.yaml | tr -d ',"' | sed 's/--$/-- true/'
} | sed 's/%H\|%i\|\$([A-Z_]*)/x/g; s/:8080/127.0.0.1:0/; s#\$COMMAND#true#; s#\$OPTIONS#--stall=30s#' >"$scratch/commands"
[ "$(wc -l <"$scratch/commands")" = 2 ]
while read -ra words; do
	code=0
	env -i PATH="$PATH" NATS_URL=nats://127.0.0.1:1 "$scratch/natsleader" run --wait=3s "${words[@]:2}" 2>"$scratch/complaint" || code=$?
	if [ "$code" != 124 ] || ! grep -q 'cannot connect to' "$scratch/complaint"; then
		echo "exit code $code: ${words[*]}"
		cat "$scratch/complaint"
		exit 1
	fi
done <"$scratch/commands"

step "the exporter and the page go on without NATS"
{
	sed -n 's/^ExecStart=//p' deploy/systemd/natsleader-{exporter,ui}.service
	sed -n 's/^ *command: \[\(.*\)\]$/\1/p' deploy/kubernetes/{exporter,ui}/deployment.yaml | tr -d ',"'
} | sed -E 's/--(page|metrics)=.*/--\1=127.0.0.1:0/' >"$scratch/commands"
[ "$(wc -l <"$scratch/commands")" = 4 ]
while read -ra words; do
	code=0
	timeout 3 env -i NATS_URL=nats://127.0.0.1:1 "$scratch/natsleader" "${words[@]:1}" 2>"$scratch/complaint" || code=$?
	if [ "$code" != 124 ] || ! grep -q 'serves .* at http' "$scratch/complaint"; then
		echo "exit code $code: ${words[*]}"
		cat "$scratch/complaint"
		exit 1
	fi
done <"$scratch/commands"
