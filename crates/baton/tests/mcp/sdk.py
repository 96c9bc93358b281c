"""The official Python client against a real server: every mode, over stdio and over HTTP.

    python sdk.py BATON URL KEY_FILE

A server must run at URL, with a project `shop`; BATON_HOME is its data folder.
"""

import asyncio
import json
import os
import sys

import httpx2
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

MODES = ["legacy", "auto", "2026-07-28"]


async def talk(client, held):
    """List, call, structured content, an error, bad arguments, a resource, a prompt."""
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert len(tools) <= 14 and "run_claim" in tools, sorted(tools)
    for tool in tools.values():
        hints = tool.annotations
        assert None not in (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint,
                            hints.open_world_hint), tool.name
        assert tool.output_schema, tool.name
    started = await client.call_tool("run_start", {"title": "Try the client", "project": "shop"})
    assert not started.is_error, started
    claimed = started.structured_content
    assert json.loads(started.content[0].text) == claimed
    assert "claim_token" not in json.dumps(claimed), "a secret was shown"
    run, proof = claimed["run"]["id"], {"attempt": claimed["attempt"]}
    # Whoever keeps a connection need not say which run is its own.
    own = {} if held else proof
    noted = await client.call_tool("run_checkpoint", {"summary": "half of it", **own})
    assert not noted.is_error, noted
    refused = await client.call_tool("run_show", {"run": "R-999999.1"})
    assert refused.is_error and refused.structured_content["code"] == "not_found", refused
    wrong = await client.call_tool("run_checkpoint", {"summary": 7, **own})
    assert wrong.is_error and wrong.structured_content["code"] == "invalid", wrong
    unknown = await client.call_tool("run_list", {"nonsense": True})
    assert unknown.is_error and unknown.structured_content["code"] == "invalid", unknown
    listed = [str(one.uri) for one in (await client.list_resources()).resources]
    assert f"baton://runs/{run}/handoff" in listed, listed
    packet = await client.read_resource(f"baton://runs/{run}/handoff")
    assert "half of it" in packet.contents[0].text
    prompt = await client.get_prompt("resume_this_run", {"run": run})
    assert run in prompt.messages[0].content.text
    done = await client.call_tool("run_complete", {"summary": "all of it", **own})
    assert not done.is_error and done.structured_content["state"] == "completed", done


async def main(baton, url, key_file):
    key = open(key_file, encoding="utf-8").read().strip()
    for mode in MODES:
        program = StdioServerParameters(command=baton, args=["mcp"], env=dict(os.environ))
        async with Client(program, mode=mode) as client:
            await talk(client, held=True)
        print(f"ok     stdio {mode}")
        async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=30) as http:
            transport = streamable_http_client(url, http_client=http)
            async with Client(transport, mode=mode) as client:
                await talk(client, held=mode == "legacy")
        print(f"ok     HTTP {mode}")


asyncio.run(main(*sys.argv[1:]))
