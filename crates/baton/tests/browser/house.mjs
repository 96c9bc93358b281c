// A house to look at: a real server in a folder of its own, a real browser, and people and agents who
// ask the table as everybody does.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import readline from 'node:readline';

const { BATON, TOOLS, SCREENS, CHROMIUM } = process.env;
const require = createRequire(path.join(TOOLS, 'package.json'));
const { chromium } = require('playwright-core');
const AXE = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

export const WIDE = { width: 1440, height: 900 };
export const PHONE = { width: 390, height: 844 };
// Under load a browser is slow; what does not come by then does not come.
const PATIENCE = 20_000;

// Starts a server in an empty folder; `again` starts it anew in the same one.
export async function open() {
  // Not in /tmp, of which agents have their own.
  mkdirSync(path.join(TOOLS, 'houses'), { recursive: true });
  const place = mkdtempSync(path.join(TOOLS, 'houses', 'house-'));
  const house = { place, data: path.join(place, 'data'), server: null, url: null, key: null };
  await start(house, '127.0.0.1:0');
  return house;
}

export async function start(house, listen = new URL(house.url).host) {
  const args = ['serve', '--json', '--data', house.data, '--listen', listen];
  house.server = spawn(BATON, args, { stdio: ['ignore', 'pipe', process.env.LOUD ? 'inherit' : 'ignore'] });
  for await (const line of readline.createInterface({ input: house.server.stdout })) {
    const ready = JSON.parse(line);
    house.url = ready.url;
    house.key = readFileSync(ready.key_file, 'utf8').trim();
    return house;
  }
  throw new Error('the server did not start');
}

export async function stop(house) {
  house.server.kill();
  if (house.server.exitCode === null) await once(house.server, 'exit');
}

export async function close(house) {
  if (house.worker && house.worker.exitCode === null) {
    house.worker.kill();
    await once(house.worker, 'exit');
  }
  await stop(house);
  rmSync(house.place, { recursive: true, force: true });
}

// A project that is a repository, and a worker whose agent does what these steps say.
export async function work(house, steps) {
  const root = path.join(house.place, 'shop');
  mkdirSync(root);
  writeFileSync(path.join(root, 'README'), 'hello\n');
  const git = (...words) => execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b.c', ...words], { cwd: root });
  git('init', '-q');
  git('add', '-A');
  git('commit', '-qm', 'First');
  writeFileSync(path.join(house.place, 'steps'), steps);
  writeFileSync(path.join(house.data, 'worker.toml'), "slots = 2\nmemory_floor = '0'\ndisk_floor = '0'\n"
    + `[agents.demo]\nprogram = 'script'\narguments = ['${path.join(house.place, 'steps')}']\n`);
  await caller(house)('PUT', '/v1/projects/shop', { root });
  const env = { PATH: process.env.PATH, BATON_HOME: house.data };
  house.worker = spawn(BATON, ['work', '--json'], { env, cwd: house.place, stdio: ['ignore', 'pipe', process.env.LOUD ? 'inherit' : 'ignore'] });
  await once(readline.createInterface({ input: house.worker.stdout }), 'line');
}

// Somebody who asks: `ask(method, path, body)`, and what is refused is an error unless it is wanted.
export function caller(house, key = house.key, token = null) {
  return async (method, where, body, refused = false) => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    if (method !== 'GET') headers['idempotency-key'] = crypto.randomUUID();
    if (token) headers['baton-claim-token'] = token;
    const sent = method === 'GET' ? undefined : JSON.stringify(body ?? {});
    const response = await fetch(house.url + where, { method, headers, body: sent });
    const answer = await response.json();
    if (!response.ok && !refused) throw new Error(`${method} ${where}: ${JSON.stringify(answer)}`);
    return answer;
  };
}

// An agent with a key of its own.
export async function agent(house, name) {
  const made = await caller(house)('POST', '/v1/keys', { name, principal: name, kind: 'agent', scopes: ['agent'] });
  const key = made.key;
  return {
    name,
    ask: caller(house, key),
    // Takes a task, and answers with whoever speaks for it from then on.
    async claim(task, lease = '5m') {
      const claimed = await caller(house, key)('POST', '/v1/runs/claim', { task, lease });
      const say = caller(house, key, claimed.claim_token);
      const run = claimed.run.id;
      await say('POST', `/v1/runs/${run}/begin`, {});
      return { run, attempt: claimed.run.attempt, say: (verb, body, refused) => say('POST', `/v1/runs/${run}/${verb}`, body, refused) };
    },
  };
}

let browser = null;

// One browser for all; each look has a profile of its own.
export async function browse() {
  browser ??= await chromium.launch({
    executablePath: CHROMIUM,
    args: ['--no-sandbox', '--headless', '--disable-gpu', '--no-first-run', '--disable-background-networking',
      '--disable-component-update', '--disable-sync', '--font-render-hinting=none'],
  });
  return browser;
}

export async function closeBrowser() {
  await browser?.close();
  browser = null;
}

// A window in which somebody is signed in, by a ticket as `baton open` has it. What the browser refuses
// or complains about is collected in `window.complaints`.
export async function look(house, { size = WIDE, theme = 'dark', script = true, reduced = false, key = house.key } = {}) {
  const context = await (await browse()).newContext({
    viewport: size,
    deviceScaleFactor: size === PHONE ? 2 : 1,
    hasTouch: size === PHONE,
    javaScriptEnabled: script,
    reducedMotion: reduced ? 'reduce' : 'no-preference',
    permissions: ['clipboard-read', 'clipboard-write'],
  });
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  page.complaints = [];
  page.on('pageerror', (error) => page.complaints.push(`error: ${error.message}`));
  page.on('dialog', (dialog) => { page.complaints.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on('console', (message) => {
    if (message.type() === 'error' && !/net::ERR_/.test(message.text())) page.complaints.push(message.text());
  });
  await context.exposeBinding('tellOfViolation', (_, told) => page.complaints.push(`policy: ${told}`));
  await context.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', (event) => {
      window.tellOfViolation(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
    });
  });
  // Whoever works on looks sees changes of style and script without building anew.
  if (process.env.ASSETS) {
    await context.route(/\/assets\/[0-9a-f]+-(base\.css|pages\.css|app\.js|board\.js|logs\.js)$/, (route) => {
      const name = route.request().url().replace(/.*-/, '');
      const contentType = name.endsWith('css') ? 'text/css' : 'text/javascript';
      return route.fulfill({ body: readFileSync(path.join(process.env.ASSETS, name)), contentType });
    });
  }
  await context.addCookies([{ name: 'baton-theme', value: theme, url: house.url }]);
  const ticket = await caller(house, key)('POST', '/v1/tickets', {});
  if (script) {
    await page.goto(ticket.url);
    await page.waitForURL((url) => url.pathname !== '/sign-in', { waitUntil: 'load' });
  } else {
    const secret = new URL(ticket.url).hash.slice(1);
    const answer = await context.request.post(`${house.url}/sign-in`, { data: { secret } });
    if (!answer.ok()) throw new Error(await answer.text());
  }
  return page;
}

export async function leave(page) {
  await page.context().close();
}

// Waits until a page shows what is live.
export async function live(page) {
  await page.locator('#live', { hasText: 'Live' }).waitFor({ state: 'attached' });
}

// A picture for people to look at.
export async function picture(page, name, whole = false) {
  mkdirSync(SCREENS, { recursive: true });
  await page.evaluate(() => document.fonts.ready.then(() => true));
  await page.screenshot({ path: path.join(SCREENS, `${name}.png`), fullPage: whole, animations: 'disabled' });
}

// What axe finds wrong, in words.
export async function audit(page) {
  // The policy of our pages lets no script of others in, so it is run from outside of them.
  const found = await page.evaluate(`${AXE}; axe.run(document, { resultTypes: ['violations'],
    runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] })`);
  return found.violations.flatMap((rule) => rule.nodes.map((node) => `${rule.id}: ${node.target} ${node.failureSummary.split('\n').slice(0, 2).join(' ')}`));
}
