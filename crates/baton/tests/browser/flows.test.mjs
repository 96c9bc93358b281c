// What people do on the pages, and what comes of it.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { PHONE, agent, caller, close, closeBrowser, leave, live, look, open, picture, start, stop } from './house.mjs';
import { fill, until } from './scene.mjs';

let house;
let tasks;
let ask;

before(async () => {
  house = await open();
  tasks = await fill(house);
  ask = caller(house);
});

after(async () => {
  await closeBrowser();
  await close(house);
});

const show = (task) => ask('GET', `/v1/tasks/${task}`);

test('a question is answered in place, and the marks show how far the answer got', async () => {
  const page = await look(house);
  await page.goto(`${house.url}/inbox?task=${tasks.question}`);
  await live(page);
  await page.keyboard.press('a');
  await page.keyboard.type('Keep it for one release.');
  await page.keyboard.press('Control+Enter');
  const marks = page.locator('.marks');
  await marks.locator('.good', { hasText: 'sent' }).waitFor();
  assert.equal(await marks.locator('.quiet', { hasText: 'applied' }).count(), 1);
  // The agent lives: it reads the answer, and acts upon it.
  const run = await tasks.asking.say('receive', { mark: 'delivered' });
  assert.equal(run.answer.text, 'Keep it for one release.');
  await marks.locator('.good', { hasText: 'delivered' }).waitFor();
  await tasks.asking.say('receive', { mark: 'applied' });
  await marks.locator('.good', { hasText: 'applied' }).waitFor();
  await page.getByText('It does not wait for you any more.').waitFor();
  await picture(page, 'answered-dark-1440');
  assert.deepEqual(page.complaints, []);
  await leave(page);
});

test('what an agent does appears on an open page by itself', async () => {
  const page = await look(house);
  await page.goto(`${house.url}/tasks/${tasks.working}`);
  await live(page);
  await tasks.hand.say('checkpoints', { summary: 'Resumes from `Last-Event-ID`' });
  await page.locator('.activity .note', { hasText: 'Resumes from Last-Event-ID' }).waitFor();
  await page.locator('.timeline svg.note').waitFor({ state: 'attached' });
  await leave(page);
});

test('a page on which somebody has clicked stays up to date', async () => {
  const page = await look(house);
  await page.goto(`${house.url}/board`);
  await live(page);
  await page.locator('#stage-done').click({ position: { x: 20, y: 200 } });
  await ask('POST', '/v1/tasks', { project: 'shop', title: 'Made after a click' });
  await page.locator('.card', { hasText: 'Made after a click' }).waitFor();
  await leave(page);
});

test('what somebody writes survives everything that changes around it', async () => {
  const page = await look(house);
  await page.goto(`${house.url}/inbox?task=${tasks.parked}`);
  await live(page);
  await page.locator('[data-answer]').fill('half of an ans');
  await ask('POST', '/v1/tasks', { project: 'shop', title: 'Something else', stage: 'coding', needs_approval: true });
  await page.locator('.items', { hasText: 'Something else' }).waitFor();
  assert.equal(await page.locator('[data-answer]').inputValue(), 'half of an ans');
  assert.equal(await page.evaluate(() => document.activeElement.tagName), 'TEXTAREA');
  await leave(page);
});

test('a card is dragged to another stage, and the move is taken back', async () => {
  const page = await look(house);
  const { id } = await ask('POST', '/v1/tasks', { project: 'shop', title: 'To be dragged' });
  await page.goto(`${house.url}/board`);
  await live(page);
  await page.locator(`#${id}`).dragTo(page.locator('#stage-coding h2'));
  await page.locator(`#stage-coding #${id}`).waitFor();
  assert.equal((await show(id)).stage, 'coding');
  await page.locator('.toast button', { hasText: 'Undo' }).click();
  await page.locator(`#stage-backlog #${id}`).waitFor();
  assert.equal((await show(id)).stage, 'backlog');
  assert.deepEqual(page.complaints, []);
  await leave(page);
});

test('a move that is refused says why before the drop, and changes nothing', async () => {
  const page = await look(house);
  await page.goto(`${house.url}/board`);
  await live(page);
  const before = (await show(tasks.working)).version;
  const drag = async (card, column) => {
    await page.locator(`#${card}`).evaluate((one) => one.scrollIntoView({ block: 'center' }));
    await page.locator(`#${card} .head`).hover();
    await page.mouse.down();
    const { y } = await page.locator(`#${card} .head`).boundingBox();
    const { x } = await page.locator(`#stage-${column}`).boundingBox();
    await page.mouse.move(x + 20, y, { steps: 5 });
    await page.mouse.move(x + 30, y + 3, { steps: 5 });
    const why = page.locator(`#stage-${column}.refuses .why`);
    await why.waitFor();
    return why.innerText();
  };
  assert.match(await drag(tasks.working, 'qa'), /holds the run/);
  await picture(page, 'refused-dark-1440');
  await page.mouse.up();
  assert.equal(await page.locator('.refuses').count(), 0);
  const { id } = await ask('POST', '/v1/tasks', { project: 'shop', title: 'Not done yet' });
  await page.locator(`#${id}`).waitFor();
  assert.match(await drag(id, 'done'), /only a run that passed the last stage/);
  await page.mouse.up();
  assert.equal((await show(tasks.working)).version, before);
  assert.equal((await show(id)).stage, 'backlog');
  await leave(page);
});

test('a card is moved by keys, and one that cannot be says why', async () => {
  const page = await look(house);
  const { id } = await ask('POST', '/v1/tasks', { project: 'shop', title: 'Moved by keys', priority: 'urgent' });
  await page.goto(`${house.url}/board?q=moved`);
  await live(page);
  await page.keyboard.press('j');
  await page.locator(`#${id}.here`).waitFor();
  await page.keyboard.press('Shift+L');
  await page.locator(`#stage-coding #${id}`).waitFor();
  assert.equal(await page.locator(`#${id}.here`).count(), 1, 'it stays marked where it goes');
  const held = await agent(house, 'keys');
  await held.claim(id);
  await page.locator(`#${id}[data-fixed]`).waitFor();
  await page.keyboard.press('Shift+L');
  await page.locator('.toast.bad', { hasText: 'holds the run' }).waitFor();
  assert.equal((await show(id)).stage, 'coding');
  await leave(page);
});

test('the filter picks, is in the URL, and every state is a URL that leads back', async () => {
  const page = await look(house);
  await page.goto(`${house.url}/board`);
  await live(page);
  await page.keyboard.press('/');
  await page.keyboard.type('label:perf');
  await page.keyboard.press('Enter');
  await page.waitForURL(/q=label/);
  const titles = () => page.locator('.card .title').allInnerTexts();
  assert.deepEqual(await titles(), ['Paginate GET /runs with keyset cursors']);
  await page.reload();
  assert.deepEqual(await titles(), ['Paginate GET /runs with keyset cursors']);
  await page.goto(`${house.url}/runs?q=is:failed`);
  assert.deepEqual(await page.locator('tbody .title').allInnerTexts(), ['Postgres: SKIP LOCKED claim path']);
  await page.goBack();
  assert.match(page.url(), /board\?q=label/);
  await leave(page);
});

test('many tasks are changed at once, after their count is said', async () => {
  const page = await look(house);
  const ids = [];
  for (const n of [1, 2, 3]) ids.push((await ask('POST', '/v1/tasks', { project: 'shop', title: `Many ${n}` })).id);
  await page.goto(`${house.url}/board?q=many`);
  await live(page);
  await page.keyboard.press('j');
  await page.keyboard.press('x');
  await page.locator('#bulk b', { hasText: '1 chosen' }).waitFor();
  await page.keyboard.press('Shift+X');
  await page.locator('#bulk b', { hasText: '3 chosen' }).waitFor();
  await picture(page, 'bulk-dark-1440');
  await page.locator('#bulk button', { hasText: 'Close' }).click();
  await page.locator('#bulk-ask h2', { hasText: 'Close 3 tasks?' }).waitFor();
  assert.equal((await show(ids[0])).ending, undefined, 'nothing happens before somebody agrees');
  await page.locator('#bulk-ask [name=reason]').fill('Nobody wants them');
  await page.locator('#bulk-ask button.primary').click();
  await page.locator('.toast', { hasText: '3 done' }).waitFor();
  for (const id of ids) assert.equal((await show(id)).ending, 'abandoned');
  assert.deepEqual(page.complaints, []);
  await leave(page);
});

test('the palette goes to pages and tasks, and runs commands', async () => {
  const page = await look(house);
  await page.goto(`${house.url}/board`);
  await live(page);
  await page.keyboard.press('Control+k');
  await page.keyboard.type('rotate');
  await page.locator('#palette-list li[aria-selected=true]', { hasText: 'Rotate refresh tokens' }).waitFor();
  await page.keyboard.press('Enter');
  await page.waitForURL(/\/tasks\/T-1$/);
  await page.keyboard.press('Control+k');
  await page.keyboard.type(tasks.failed.toLowerCase());
  await page.keyboard.press('Enter');
  await page.waitForURL(`${house.url}/tasks/${tasks.failed}`);
  await page.keyboard.press('Control+k');
  await page.keyboard.type('light or');
  await page.keyboard.press('Enter');
  await page.locator('html[data-theme=light]').waitFor({ state: 'attached' });
  await page.reload();
  assert.equal(await page.locator('html').getAttribute('data-theme'), 'light', 'the choice stays');
  await leave(page);
});

test('keys go from page to page', async () => {
  const page = await look(house);
  for (const [key, where] of [['b', '/board'], ['r', '/runs'], ['a', '/agents'], ['i', '/inbox']]) {
    await page.keyboard.press('g');
    await page.keyboard.press(key);
    await page.waitForURL((url) => url.pathname === where);
    await live(page);
  }
  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  await page.waitForURL(/\/inbox\?task=/);
  await leave(page);
});

test('a task is added on the board', async () => {
  const page = await look(house);
  await page.goto(`${house.url}/board`);
  await live(page);
  await page.keyboard.press('c');
  await page.locator('#adding [name=title]').fill('Added by hand');
  await page.locator('#adding [name=stage]').selectOption('coding');
  await page.keyboard.press('Control+Enter');
  await page.locator('#stage-coding .card', { hasText: 'Added by hand' }).waitFor();
  assert.deepEqual(page.complaints, []);
  await leave(page);
});

test('a page that loses the server says so, and resumes by itself with what it missed', async () => {
  const page = await look(house);
  await page.goto(`${house.url}/board`);
  await live(page);
  await stop(house);
  await page.locator('#live[data-state=offline]').waitFor();
  await picture(page, 'offline-dark-1440');
  await start(house);
  ask = caller(house);
  await ask('POST', '/v1/tasks', { project: 'shop', title: 'Made while nobody looked' });
  await page.locator('.card', { hasText: 'Made while nobody looked' }).waitFor();
  await page.locator('#live[data-state=live]').waitFor();
  await leave(page);
});

test('live updates are held and let go', async () => {
  const page = await look(house);
  await page.goto(`${house.url}/board`);
  await live(page);
  await page.keyboard.press('p');
  await page.locator('#live[data-state=held]').waitFor();
  await ask('POST', '/v1/tasks', { project: 'shop', title: 'Not seen at once' });
  assert.equal(await page.locator('.card', { hasText: 'Not seen at once' }).count(), 0);
  await page.keyboard.press('p');
  await page.locator('.card', { hasText: 'Not seen at once' }).waitFor();
  await leave(page);
});

test('on a phone the board opens where somebody is needed, and questions are answered', async () => {
  const page = await look(house, { size: PHONE, theme: 'light' });
  await page.goto(`${house.url}/board`);
  await live(page);
  await page.locator('.stages a.here', { hasText: 'Coding' }).waitFor();
  await page.locator('.stages a', { hasText: 'QA' }).tap();
  await page.locator('.stages a.here', { hasText: 'QA' }).waitFor();
  await page.goto(`${house.url}/inbox?task=${tasks.parked}`);
  await live(page);
  await page.locator('[data-answer]').fill('The one of the team.');
  await page.locator('.detail button.primary', { hasText: 'Answer' }).tap();
  await page.locator('.marks .good', { hasText: 'sent' }).waitFor();
  await picture(page, 'answered-light-390');
  await until(async () => (await show(tasks.parked)).run.state === 'queued');
  assert.deepEqual(page.complaints, []);
  await leave(page);
});
