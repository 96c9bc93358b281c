// Runs the official MCP conformance suite against a real server with its fixtures.
//
//   node conformance.mjs BATON SUITE OUT
//
// The suite cannot send a key, so a small proxy adds one and passes everything else on as it is,
// Host and Origin included.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import readline from 'node:readline';

const [baton, suite, out] = process.argv.slice(2).map((part) => path.resolve(part));

// Scenarios of extensions run by name only. `tasks-status-notifications` is skipped by the suite
// itself: to push is a choice, and we are polled.
const TASKS = ['lifecycle', 'capability-negotiation', 'wire-fields', 'request-state-removal', 'mrtr-input',
  'request-headers', 'dispatch-and-envelope', 'status-notifications', 'required-task-error', 'mrtr-composition'];

let upstream = null;

const proxy = http.createServer((request, response) => {
  const options = { ...upstream, method: request.method, path: request.url, headers: { ...request.headers } };
  options.headers.authorization = `Bearer ${options.key}`;
  const onward = http.request(options, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    response.flushHeaders();
    answer.pipe(response);
  });
  onward.on('error', () => response.destroy());
  // Whoever goes away before the answer is through takes its request along.
  response.on('close', () => onward.destroy());
  request.pipe(onward);
});

async function serve(folder, port) {
  const hosts = ['localhost', '127.0.0.1'].flatMap((name) => ['--host', `${name}:${port}`]);
  const data = path.join(folder, 'data');
  const server = spawn(baton, ['serve', '--json', '--conformance-fixtures', '--data', data,
    '--listen', '127.0.0.1:0', ...hosts], { stdio: ['ignore', 'pipe', 'inherit'] });
  for await (const line of readline.createInterface({ input: server.stdout })) {
    const ready = JSON.parse(line);
    const url = new URL(ready.url);
    const key = readFileSync(ready.key_file, 'utf8').trim();
    upstream = { hostname: url.hostname, port: url.port, key };
    return server;
  }
  throw new Error('the server did not start');
}

async function run(name, url, ...flags) {
  const child = spawn(process.execPath, [suite, 'server', '--url', url, '-o', path.join(out, name), ...flags],
    { stdio: ['ignore', 'pipe', 'pipe'] });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => { said += chunk; });
  const [code] = await once(child, 'exit');
  const totals = said.split('\n').filter((line) => /passed|failed|Total|✗|FAIL/.test(line));
  console.log(`${code === 0 ? 'ok    ' : 'FAILED'} ${name}`);
  if (code !== 0) console.log(said);
  else if (totals.length) console.log(`       ${totals.at(-1).trim()}`);
  return code === 0;
}

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
proxy.listen(0, '127.0.0.1');
await once(proxy, 'listening');
const port = proxy.address().port;
const server = await serve(out, port);
const url = `http://127.0.0.1:${port}/mcp`;
let good = true;
for (const version of ['2025-06-18', '2025-11-25', '2026-07-28']) {
  good = await run(`suite-${version}`, url, '--suite', 'all', '--spec-version', version) && good;
}
for (const name of TASKS) {
  good = await run(`tasks-${name}`, url, '--scenario', `tasks-${name}`) && good;
}
server.kill();
await once(server, 'exit');
proxy.close();
proxy.closeAllConnections();
process.exit(good ? 0 : 1);
