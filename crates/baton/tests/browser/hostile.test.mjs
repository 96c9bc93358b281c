// What others wrote is text on every page, whatever it looks like; and what a page may load or run is ours alone.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { agent, caller, close, closeBrowser, leave, live, look, open } from './house.mjs';
import { until } from './scene.mjs';

// Ways in, each in many clothes: two hundred in all.
const BARE = [
  '<script>boom()</script>', '<img src=x onerror=boom()>', '<svg onload=boom()>', '<svg><script>boom()</script></svg>',
  '<body onload=boom()>', '<iframe srcdoc="<script>parent.boom()</script>">', '<iframe src=javascript:parent.boom()>',
  '<a href=javascript:boom()>go</a>', '<math><a xlink:href=javascript:boom()>go</a></math>', '<details open ontoggle=boom()>',
  '<video><source onerror=boom()></video>', '<input autofocus onfocus=boom()>', '<form action=javascript:boom()><button>go',
  '<object data=javascript:boom()>', '<embed src=javascript:boom()>', '<base href=//evil.example/>', '<link rel=stylesheet href=//evil.example/x.css>',
  '<meta http-equiv=refresh content="0;url=javascript:boom()">', '<style>@import "//evil.example/x.css"</style>', '<marquee onstart=boom()>',
  '<template><img src=x onerror=boom()></template>', '<noscript><p title="</noscript><img src=x onerror=boom()>">', '<plaintext>', '<textarea autofocus onfocus=boom()>',
  'javascript:boom()',
];
const CLOTHES = [
  (bare) => bare,
  (bare) => `"><${bare.slice(1)}`,
  (bare) => `'>${bare}`,
  (bare) => `</title></textarea></script></style>${bare}`,
  (bare) => `\`${bare}\``,
  (bare) => `--> ${bare} <!--`,
  (bare) => bare.replaceAll('<', '&lt;').replaceAll('>', '&gt;'),
  (bare) => `${bare.toUpperCase()} \${boom()} {{boom()}}`,
];
const PAYLOADS = BARE.flatMap((bare) => CLOTHES.map((dress) => dress(bare)));

let house;
let ask;
const tasks = [];

before(async () => {
  assert.equal(PAYLOADS.length, 200);
  house = await open();
  ask = caller(house);
  await ask('PUT', '/v1/projects/shop', { root: PAYLOADS[0], stages: [{ name: 'coding' }] });
  const fox = await agent(house, 'fox');
  // Each payload goes through every field that takes words: of people, and of agents, who are whom we do not trust.
  for (const [index, payload] of PAYLOADS.entries()) {
    const made = await ask('POST', '/v1/tasks', {
      project: 'shop', title: payload, body: payload, stage: 'coding', policy: { attempts_max: 1, lease: '30m' },
      contract: [{ id: 'gate', kind: 'gate', command: payload }, { id: 'criterion', kind: 'criterion', text: payload }],
    });
    tasks.push(made.id);
    const held = await fox.claim(made.id, '30m');
    await held.say('progress', { summary: payload, cursor: payload, done: [payload], failed: [{ item: payload, reason: payload }] });
    await held.say('checkpoints', { summary: payload, cursor: payload, evidence: [{ kind: 'note', reference: payload, summary: payload }], git: { head: payload } });
    if (index % 4 === 0) await held.say('ask', { question: payload });
    else if (index % 4 === 1) await held.say('fail', { code: 'evil', reason: payload });
    else if (index % 4 === 2) await held.say('block', { kind: 'needs_input', reason: payload, condition: payload });
    else await ask('POST', `/v1/tasks/${made.id}/hold`, { reason: payload });
  }
  await ask('POST', '/v1/scheduler/pause', { reason: PAYLOADS[1] });
  await until(async () => (await ask('GET', '/v1/stats')).inbox > 100);
}, { timeout: 300_000 });

after(async () => {
  await closeBrowser();
  await close(house);
});

async function watched() {
  const page = await look(house);
  const asked = [];
  await page.context().exposeBinding('boom', () => page.complaints.push('a payload ran'));
  page.on('request', (request) => { if (!request.url().startsWith(house.url) && !request.url().startsWith('data:')) asked.push(request.url()); });
  return { page, asked };
}

test('two hundred payloads through every field are text on every page', async () => {
  const { page, asked } = await watched();
  // All titles stand in the list; every second task, each way in in half of its clothes, is looked at by itself.
  const pages = ['/inbox', '/board', '/agents', '/runs'];
  for (const index of [50, 100, 150]) pages.push(`/runs?after=${tasks[index]}`);
  for (const [index, id] of tasks.entries()) if ((index + Math.floor(index / 8)) % 2 === 0) pages.push(`/tasks/${id}`);
  for (const id of tasks.slice(0, 8)) for (const tab of ['events', 'handoff', 'logs', 'diff']) pages.push(`/tasks/${id}?tab=${tab}`);
  for (const [index, id] of tasks.entries()) if (index % 9 === 0) pages.push(`/inbox?task=${id}`);
  for (const where of pages) {
    await page.goto(house.url + where, { waitUntil: 'domcontentloaded' });
    const foreign = await page.evaluate(() => [...document.querySelectorAll('iframe, object, embed, base, math, marquee, video, template, style, [onerror], [onload], [onfocus], [ontoggle], a[href^="javascript:"]')].length
      + [...document.scripts].filter((script) => !script.src.startsWith(location.origin)).length);
    assert.equal(foreign, 0, where);
  }
  await page.goto(`${house.url}/tasks/${tasks[1]}`);
  await live(page);
  assert.equal(await page.locator('.task-head h2').innerText(), PAYLOADS[1].replace(/\s+/g, ' ').trim());
  assert.deepEqual(page.complaints, []);
  assert.deepEqual(asked, [], 'nothing is asked of anybody else');
  await leave(page);
}, { timeout: 300_000 });

test('payloads that arrive while somebody looks are text, too', async () => {
  const { page, asked } = await watched();
  await page.goto(`${house.url}/runs`);
  await live(page);
  for (const payload of PAYLOADS.filter((_, index) => index % 8 === 0)) {
    await ask('POST', '/v1/tasks', { project: 'shop', title: payload });
  }
  await ask('POST', '/v1/tasks', { project: 'shop', title: 'the last of them' });
  await page.locator('td.title', { hasText: 'the last of them' }).waitFor();
  assert.deepEqual(page.complaints, []);
  assert.deepEqual(asked, []);
  await leave(page);
});

test('payloads in a URL are text, too', async () => {
  const { page } = await watched();
  const places = ['/runs?q=', '/board?q=', '/inbox?task=', '/tasks/T-1?tab=', '/runs?project='];
  for (const [index, payload] of PAYLOADS.entries()) {
    if ((index + Math.floor(index / 8)) % 3) continue;
    const where = places[index % places.length];
    const answer = await page.goto(house.url + where + encodeURIComponent(payload), { waitUntil: 'domcontentloaded' });
    assert.ok([200, 404, 422].includes(answer.status()), `${where}${payload}: ${answer.status()}`);
  }
  assert.deepEqual(page.complaints, []);
  await leave(page);
}, { timeout: 300_000 });

test('a page makes no HTML that the policy of ours did not name', async () => {
  const { page } = await watched();
  await page.goto(`${house.url}/board`);
  const tried = await page.evaluate(() => {
    const outcome = (act) => { try { act(); return 'done'; } catch (error) { return error.name; } };
    return [
      outcome(() => { document.body.innerHTML = '<b>x</b>'; }),
      outcome(() => trustedTypes.createPolicy('other', { createHTML: (text) => text })),
      outcome(() => trustedTypes.createPolicy('baton', { createHTML: (text) => text })),
    ];
  });
  assert.deepEqual(tried, ['TypeError', 'TypeError', 'TypeError']);
  await leave(page);
});

test('every page says what may run in it, and no page of another site can hold or script it', async () => {
  const { page } = await watched();
  for (const where of ['/inbox', '/board', '/runs', '/agents', `/tasks/${tasks[0]}`, '/sign-in']) {
    const answer = await page.goto(house.url + where, { waitUntil: 'domcontentloaded' });
    const headers = answer.headers();
    const policy = headers['content-security-policy'];
    for (const part of ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "require-trusted-types-for 'script'", 'trusted-types baton']) {
      assert.ok(policy.includes(part), `${where} lacks ${part}`);
    }
    assert.equal(headers['x-content-type-options'], 'nosniff');
    assert.equal(headers['referrer-policy'], 'no-referrer');
    assert.equal(headers['cache-control'], 'no-store');
  }
  // The names of this server are those that it answers to; a page elsewhere under another name gets nothing.
  const port = new URL(house.url).port;
  for (const host of ['evil.example', `evil.example:${port}`, `LOCALHOST.:${port}`]) {
    const answer = await page.context().request.get(`${house.url}/board`, { headers: { host }, maxRedirects: 0 });
    assert.ok([400, 403, 421].includes(answer.status()), `${host}: ${answer.status()}`);
  }
  for (const headers of [{ origin: 'http://evil.example' }, { origin: 'null' }, { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors' }]) {
    const answer = await page.context().request.get(`${house.url}/board`, { headers, maxRedirects: 0 });
    assert.equal(answer.status(), 403, JSON.stringify(headers));
  }
  for (const secret of ['?token=x', '?key=batonk_x', '?k=batonk_abc']) {
    const answer = await page.context().request.get(`${house.url}/board${secret}`, { maxRedirects: 0 });
    assert.ok(answer.status() === 400 || !secret.includes('batonk') && answer.status() < 400, `${secret}: ${answer.status()}`);
  }
  await leave(page);
});

test('bytes that an agent handed in are a download, and no page', async () => {
  const html = '<script>boom()</script>';
  const bytes = new TextEncoder().encode(html);
  const digest = [...new Uint8Array(await crypto.subtle.digest('SHA-256', bytes))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
  const headers = { authorization: `Bearer ${house.key}`, 'content-type': 'application/octet-stream' };
  const put = await fetch(`${house.url}/v1/blobs/${digest}`, { method: 'PUT', headers, body: bytes });
  assert.ok(put.ok, await put.text());
  const got = await fetch(`${house.url}/v1/blobs/${digest}`, { headers });
  assert.equal(await got.text(), html);
  assert.equal(got.headers.get('x-content-type-options'), 'nosniff');
  assert.match(got.headers.get('content-type'), /^application\/octet-stream/);
  assert.match(got.headers.get('content-disposition') ?? '', /^attachment/);
  assert.match(got.headers.get('content-security-policy') ?? '', /sandbox/);
});
