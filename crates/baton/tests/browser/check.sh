#!/usr/bin/env bash
# The dashboard in a real browser: every page and flow, checked on what stands there, with pictures.
#
#   check.sh BATON TOOLS SCREENS [TEST FILES…]
#
# What is missing is installed: a browser from the system's packages, and what drives it under TOOLS. Where
# no browser can be had this fails, because nothing else can tell whether people see anything.
set -euo pipefail

driver_version=1.65.1
axe_version=4.14.0

baton=$(realpath "$1") tools=$2/browser screens=$3
here=$(dirname "$(realpath "$0")")
shift 3
mkdir -p "$tools" "$screens"

chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [[ -z $chromium ]] && ((EUID == 0)) && command -v apt-get >/dev/null; then
    echo "A browser is missing: installing the system's chromium (a minute, once)."
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -qq --yes --no-install-recommends chromium >/dev/null || true
    chromium=$(command -v chromium || true)
fi
if [[ -z $chromium ]]; then
    echo "A browser is needed: 'apt-get install chromium' as root, or put chromium or google-chrome on the PATH." >&2
    exit 1
fi
if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
    echo "Node 20 or newer with npm is needed to drive the browser: 'apt-get install nodejs npm'." >&2
    exit 1
fi

versions="$driver_version $axe_version"
if [[ "$(cat "$tools/versions" 2>/dev/null)" != "$versions" ]]; then
    echo "What drives the browser is missing: installing it into $tools (seconds, once)."
    echo '{ "private": true }' >"$tools/package.json"
    npm install --silent --no-audit --no-fund --no-save --ignore-scripts --prefix "$tools" \
        "playwright-core@$driver_version" "axe-core@$axe_version"
    echo "$versions" >"$tools/versions"
fi

(($#)) || set -- "$here"/*.test.mjs
export BATON=$baton TOOLS=$(realpath "$tools") SCREENS=$(realpath "$screens") CHROMIUM=$chromium
# One after the other: each has a server and a browser of its own.
node --test --test-concurrency=1 --test-reporter=spec "$@"
echo "Pictures for people are in $screens."
