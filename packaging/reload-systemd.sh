#!/bin/sh
# After the packages have been installed, updated or removed. Units that run go on with the old command until they
# are restarted, one host after the other: docs/howto/rollouts.md.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
fi
